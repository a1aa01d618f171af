"""What the spec requires can be imported, with the torch that is installed beside it."""

import os
from concurrent.futures import ThreadPoolExecutor

from smoke.engine import child_process
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import CheckFailed, Finding, fail_if
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
    bad = {name: answer.finding for name, answer in answers.items() if answer.finding}
    if bad:
        raise CheckFailed(_all(bad))


def _installed(expect: Expect, installed: dict[str, list[str]]) -> None:
    # What the lock holds and is not installed is a finding of identity.versions.
    absent = [
        each
        for each in expect.requirements
        if each not in {*installed, *expect.packages}
    ]
    fail_if([f"{name} is not installed" for name in absent], "missing-package")


def _all(bad: dict[str, Finding]) -> Finding:
    """Return one finding for all that failed; the first gives code, cause and remedy."""
    first, *others = bad.items()
    name, found = first
    return Finding(
        "import-fails" if found.code == "op-fails" else found.code,
        f"{name} can't be imported: {found.symptom}",
        found.cause,
        found.remedy,
        (*found.evidence, *(f"{other}: {each.symptom}" for other, each in others)),
    )
