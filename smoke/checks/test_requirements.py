"""What the spec requires can be imported, with the torch that is installed beside it."""

import os
from concurrent.futures import ThreadPoolExecutor

from smoke.engine import child_process
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import fail, fail_if
from smoke.engine.requirements import to_import, top_level

# Most of them import torch, which takes up to a gigabyte of memory and all of a disk's speed.
AT_ONCE = min(2, os.cpu_count() or 1)


@check(
    "identity.requirements",
    stands_for="torchvision of another index: operator torchvision::nms does not exist",
)
def test_requirements(expect: Expect, numbers: Numbers) -> None:
    """Every package that the spec names can be imported."""
    installed = top_level()
    _installed(expect, installed)
    imported = earlier = 0
    for name in expect.requirements:
        if name in expect.imported:
            earlier += 1
        elif installed.get(name):
            imported += 1
        elif name in installed:
            numbers.record(f"{name} has no module", 0, "count")
    modules = to_import(expect)

    def load(name: str) -> child_process.Answer:
        numbers.step(f"import {', '.join(modules[name])}")
        return child_process.call(
            "smoke.engine.requirements:import_modules", modules=modules[name]
        )

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(modules, pool.map(load, modules), strict=True))
    numbers.record("imported", imported, "count")
    if earlier:
        numbers.record("imported by the build before", earlier, "count")
    _fail_together(answers)


def _installed(expect: Expect, installed: dict[str, list[str]]) -> None:
    absent = []
    for name in expect.requirements:
        # What the lock holds and is not installed is a finding of identity.versions.
        if name not in installed and not expect.locks(name):
            absent.append(f"{name} is not installed")
    fail_if(absent, "missing-package")


def _fail_together(answers: dict[str, child_process.Answer]) -> None:
    """End the check with all that failed; the first gives code, cause and remedy."""
    failures = []
    for name, answer in answers.items():
        if answer.finding:
            failures.append((name, answer.finding))
    if not failures:
        return
    (name, first), *others = failures
    evidence = list(first.evidence)
    evidence += [f"{other}: {finding.symptom}" for other, finding in others]
    fail(
        "import-fails" if first.code == "op-fails" else first.code,
        f"{name} can't be imported: {first.symptom}",
        evidence,
        cause=first.cause,
        remedy=first.remedy,
    )
