"""The check files, and the checks that they declare, read without an import.

The supervisor compares what is declared with what its workers have run: a worker that ends early,
or that can't import a file, must not leave checks out unnoticed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from smoke.engine.check import DEVICE

CHECKS = Path(__file__).resolve().parents[1] / "checks"
# A cause before its symptoms, and what disturbs measurements (memory, processes) after them. This
# is an order only: `check_files` returns every check file, named here or not.
ORDER = (
    "identity",
    "device",
    "selection",
    "operators",
    "fused",
    "rotary",
    "requirements",
    "libraries",
    "resume",
    "offload",
    # Begun with the operators: what measures speed, or computes with all threads, has to be alone.
    "samples",
    "compile",
    "throughput",
    "autocast",
    "models",
    "training",
    "programs",
    "memory",
    "transfer",
    "collective",
    "noise",
)
# Their checks take the device, but are about the machine or the environment: one run is enough for
# all devices.
SHARED = ("selection", "collective", "noise")


@dataclass(frozen=True)
class Declared:
    """One check as its file declares it.

    Attributes:
        id: Its identifier.
        title: The first line of its docstring.
        full: Whether it belongs to the full suite only.
        on_device: Whether each device requires it.
    """

    id: str
    title: str
    full: bool
    on_device: bool

    def on(self, index: int) -> str:
        """Return the id of the check on one device."""
        return on(self.id, index) if self.on_device else self.id


def check_files(folder: Path = CHECKS) -> list[Path]:
    """Return every check file of the suite, those of `ORDER` first."""
    return sorted(sorted(folder.glob("test_*.py")), key=_place)


def _place(path: Path) -> int:
    area = path.stem.removeprefix("test_")
    if area in ORDER:
        return ORDER.index(area)
    return len(ORDER)


def declared(files: Iterable[Path]) -> list[Declared]:
    """Return the checks of check files, in the order of the files."""
    checks = []
    for path in files:
        checks += _declared_in(path)
    return checks


@functools.cache
def _declared_in(path: Path) -> list[Declared]:
    checks: list[Declared] = []
    module = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            checks += _declared(node)
    return checks


def _declared(function: ast.FunctionDef) -> Iterator[Declared]:
    parameters = [parameter.arg for parameter in function.args.args]
    for call in function.decorator_list:
        if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "check":
            identifier = ast.literal_eval(call.args[0])
            title = (ast.get_docstring(function) or "").partition("\n")[0]
            full = False
            for keyword in call.keywords:
                if keyword.arg == "full":
                    full = bool(ast.literal_eval(keyword.value))
            on_device = is_on_device(identifier, parameters)
            yield Declared(identifier, title, full, on_device)


def is_on_device(identifier: str, parameters: Iterable[str]) -> bool:
    """Return whether each device requires a check of these parameters."""
    if identifier.partition(".")[0] in SHARED:
        return False
    return identifier == DEVICE or "device" in parameters


def on(identifier: str, index: int) -> str:
    """Return the id of a device's check: the number is that of torch, the first has none."""
    return f"{identifier}@{index}" if index else identifier
