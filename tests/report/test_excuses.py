"""The reasons of evidence are those that the suite writes, and each is compared where it can be."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from provision.core.project import Project
from provision.lockfile.pip import read_lock
from provision.report.excuses import is_reason, is_so
from provision.report.suite_checks import read_suite
from provision.spec.reader import load_target
from tests.test_docs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Project(ROOT)
CHECKS = [check.id for check in read_suite(PROJECT.smoke).checks]
# What a part of a reason that is known only in a run may be.
PLAYED = {"name": "transformers", "release": "(2, 5)", "compiler": "g++"}
PLAYED |= {"devices.kind(device)": "xpu", "major": "6", "minor": "1"}
PLAYED |= {"' and '.join(absent)": "INCLUDE"}


def reasons() -> Iterator[str]:
    """Yield each text that a condition of a check, or a probe of a device, returns."""
    files = [*(ROOT / "smoke/checks").glob("test_*.py"), ROOT / "smoke/engine/check.py"]
    names = ("capabilities", "compilers")
    files += [ROOT / f"smoke/device/{name}.py" for name in names]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and _tells(node):
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and part.value:
                        yield from _texts(part.value)
            elif isinstance(node, ast.Lambda) and "expect." in ast.unparse(node):
                yield from _texts(node.body)


def _tells(function: ast.FunctionDef) -> bool:
    """Whether a function returns why not: of an expectation, a device or a machine."""
    text = ast.unparse(function.args)
    known = ("when", "compiles", "_windows", "for_inductor", "for_triton_xpu")
    takes = text in ("expect: Expect", "device: torch.device", "_expect: Expect")
    returns = function.returns is not None and ast.unparse(function.returns) == "str"
    return returns and (takes or function.name in known)


def _texts(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.JoinedStr):
        yield "".join(map(_part, value.values))
    elif isinstance(value, ast.IfExp):
        yield from (*_texts(value.body), *_texts(value.orelse))
    elif isinstance(value, ast.BoolOp):
        for each in value.values:
            yield from _texts(each)


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.FormattedValue):
        return PLAYED.get(ast.unparse(part.value), "1.5")
    return str(ast.literal_eval(part))


def test_each_reason_of_the_suite_is_known() -> None:
    found = {reason for reason in reasons() if reason}
    assert len(found) > 15
    unknown = {r for r in found if not any(is_reason(check, r) for check in CHECKS)}
    assert unknown == set()


@pytest.mark.parametrize(
    ("target", "check", "reason", "so"),
    [
        ("cpu-linux", "device.family", "only for targets with a GPU", True),
        ("arc-linux", "device.family", "only for targets with a GPU", False),
        ("arc-linux", "compile.mul_add", "needs Triton, which is not locked", False),
        ("ipex-llm-linux", "resume.scaler", "needs torch 2.3 or later", True),
        ("arc-linux", "resume.scaler", "needs torch 2.3 or later", False),
        ("ipex-llm-linux", "operators.sizes", "older than torch (2, 5)", True),
        ("arc-linux", "operators.sizes", "older than torch (2, 5)", False),
        ("arc-linux", "operators.sizes", "only in a group of processes", False),
        ("cuda-linux", "resume.scaler", "the device has no float64: x", False),
        ("arc-linux", "resume.scaler", "the device has no float64: x", True),
        (
            "arc-linux",
            "device.matmul@1",
            "iGPU is of family xe, the target is for dg2",
            True,
        ),
    ],
)
def test_a_reason_is_compared_with_spec_and_lock(
    target: str,
    check: str,
    reason: str,
    so: bool,
) -> None:
    made, lock = load_target(PROJECT.specs, target), read_lock(PROJECT.lock(target))
    assert is_so(check, reason, made, lock) is so


def test_checks_that_always_measure_are_told_from_their_code() -> None:
    """A check that compared nothing has not passed; some find only whether something is there."""
    silent = {c.id for c in read_suite(PROJECT.smoke).checks if not c.measures}
    assert {"device.driver", "identity.python", "health.errors"} <= silent
    assert silent.isdisjoint({"device.matmul", "rotary.eager", "memory.leak"})
