"""Warnings: known harmless ones are told apart from unknown ones."""

import torch

from smoke.checks import harmless
from smoke.device import devices
from smoke.engine import child_process, import_order
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import CheckFailed, fail


def program_of(expect: Expect, _device: torch.device) -> child_process.Call:
    """Return the call of `import_all` for a target."""
    modules = import_order.operators(expect) + import_order.libraries(expect)
    return "smoke.checks.test_noise:import_all", {
        "modules": modules,
        "accelerator": expect.accelerator,
    }


@check(
    "noise.imports",
    stands_for="people chase harmless warnings, and miss the others",
    full=True,
    beside=program_of,
)
def test_imports(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """A program that imports the stack and computes prints no unknown line."""
    numbers.step(f"import the stack in a fresh process, and compute on {device}")
    function, arguments = program_of(expect, device)
    answer = child_process.call(function, timeout=child_process.TIMEOUT, **arguments)
    if answer.finding:
        raise CheckFailed(answer.finding)
    known, unknown = harmless.sort_lines(answer.output)
    numbers.record("known lines", len(known), "count")
    numbers.record("unknown lines", len(unknown), "count")
    if unknown:
        fail(
            "unknown-warning",
            f"{len(unknown)} printed lines are not known as harmless: {unknown[0][:120]}",
            unknown[:10],
        )


def import_all(modules: list[str], accelerator: str) -> bool:
    """Import the stack and compute once, as the first lines of a program do."""
    for module in modules:
        import_order.load(module)
    ones = torch.ones(4, 4).to(devices.of(accelerator))
    return bool((ones @ ones).sum().item() == 64)
