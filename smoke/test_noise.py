"""Warnings: known harmless ones are told apart from unknown ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch

from smoke import child_process, import_order
from smoke import device as devices
from smoke.checks import check
from smoke.finding import CheckFailed, fail

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect

# Reason -> pattern. Each is printed by C++ code or by an import, and changes no result.
BENIGN: dict[str, str] = {
    "IPEX replaces operators of torch, as intended": (
        r"Overriding a previously registered kernel|Warning only once for all operators"
        r"|^\s*operator: |registered at |dispatch key: |previous kernel: |new kernel: "
    ),
    "a later version will remove this; the lock holds the version": (
        r"(Future|Deprecation|PendingDeprecation)Warning: |^\s+warnings\.warn\("
    ),
    "torchvision lacks libpng or libjpeg, which only its image reader needs": (
        r"Failed to load image Python extension"
    ),
    "IPEX looks for a CUDA toolkit, which it does not need": r"No CUDA runtime is found",
    "ipex-llm reports that it imported IPEX": r"intel_extension_for_pytorch auto imported",
}


@check("noise.imports", stands_for="people chase harmless warnings, and miss the others", full=True)
def test_imports(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """A program that imports the stack and computes prints no unknown line."""
    modules = [*import_order.operators(expect), *import_order.libraries(expect)]
    numbers.step(f"import the stack in a fresh process, and compute on {device}")
    answer = child_process.call(
        "smoke.test_noise:import_all", modules=modules, accelerator=expect.accelerator
    )
    if answer.finding:
        raise CheckFailed(answer.finding)
    benign, unknown = sort_lines(answer.output)
    numbers.record("known lines", len(benign), "count")
    numbers.record("unknown lines", len(unknown), "count")
    if unknown:
        fail(
            "unknown-warning",
            f"{len(unknown)} printed lines are not known as harmless: {unknown[0][:120]}",
            cause="a package, the runtime or the driver warns about something",
            remedy="read it; if it is harmless, add it to BENIGN in smoke/test_noise.py",
            evidence=unknown[:10],
        )


def import_all(modules: list[str], accelerator: str) -> bool:
    """Import the stack and compute once, as the first lines of a program do."""
    for module in modules:
        import_order.load(module)
    ones = torch.ones(4, 4).to(devices.of(accelerator))
    return bool((ones @ ones).sum().item() == 64)


def sort_lines(output: str) -> tuple[list[str], list[str]]:
    """Return the benign and the unknown lines of a program's output."""
    lines = [line for line in output.splitlines() if line.strip()]
    known = re.compile("|".join(f"(?:{pattern})" for pattern in BENIGN.values()))
    benign = [line for line in lines if known.search(line)]
    return benign, [line for line in lines if not known.search(line)]
