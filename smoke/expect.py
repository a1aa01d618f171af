"""What the toolkit expects of the environment: ``expect.json``, read and judged in one go."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SCHEMA = 1
ACCELERATORS = ("cpu", "cuda", "xpu")
ROTARY = ("half", "interleaved", "ipex-llm")


class BadExpect(Exception):  # noqa: N818 - read as a sentence: the expectation is bad
    """The file can't be used; ``faults`` holds everything that is wrong with it."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        super().__init__(f"{path}: " + "; ".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Expect:
    """What one target promises.

    Attributes:
        target: Name of the target, for the report.
        accelerator: ``cpu``, ``cuda`` or ``xpu``.
        python: ``major.minor`` of the interpreter.
        packages: Every locked distribution, normalised name to version.
        forbid: Distributions that must not be there: name to reason.
        driver: Lowest driver that is known to work, as ``>=version``, or None.
        families: Hardware families that the target is for; empty means any.
        fused_ops: Qualified names of fused operators that must work on the device.
        rotary: Kinds of rotary embedding to prove: see `ROTARY`.
        speedup_over_cpu: How many times the CPU's training speed the device must reach, or None.
        environment: Variables that the target sets.
    """

    target: str
    accelerator: str
    python: str
    packages: Mapping[str, str]
    forbid: Mapping[str, str]
    driver: str | None
    families: tuple[str, ...]
    fused_ops: tuple[str, ...]
    rotary: tuple[str, ...]
    speedup_over_cpu: float | None
    environment: Mapping[str, str]

    def locks(self, name: str) -> bool:
        """Say whether the lock holds a distribution of this normalised name."""
        return name in self.packages

    def release(self, name: str) -> tuple[int, int]:
        """Return major and minor version of a locked distribution, (0, 0) for others."""
        major, minor = (*re.findall(r"\d+", self.packages.get(name, "")), "0", "0")[:2]
        return int(major), int(minor)

    @property
    def locks_cuda(self) -> bool:
        """Whether the lock holds CUDA's runtime."""
        return any(name.startswith("nvidia-cuda-runtime") for name in self.packages)

    @property
    def on_gpu(self) -> bool:
        """Whether the target has a device besides the CPU."""
        return self.accelerator != "cpu"


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _reasons(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict) and set(item) == {"name", "reason"} and _table(item)
        for item in value
    )


def _floor(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.startswith(">="))


def _factor(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (number and value > 0)  # type: ignore[operator]


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "target": (_text, "a name"),
    "accelerator": (lambda value: value in ACCELERATORS, f"one of {', '.join(ACCELERATORS)}"),
    "python": (_text, "major.minor, for instance 3.11"),
    "packages": (_table, "a table of name = version"),
    "forbid": (_reasons, "a list of {name, reason}"),
    "driver": (_floor, "null or '>=version'"),
    "families": (_texts, "a list of names"),
    "fused_ops": (_texts, "a list of operator names"),
    "rotary": (
        lambda value: _texts(value) and set(value) <= set(ROTARY),
        f"a list out of {', '.join(ROTARY)}",
    ),
    "speedup_over_cpu": (_factor, "null or a number above 0"),
    "environment": (_table, "a table of name = text"),
}


def _faults(data: object) -> list[str]:
    if not isinstance(data, dict):
        return ["not a JSON object"]
    if data.get("schema") != SCHEMA:
        return [f"schema: {data.get('schema')!r}, this suite reads {SCHEMA}"]
    unknown = [f"{key}: unknown key" for key in sorted(set(data) - set(RULES) - {"schema"})]
    missing = [f"{key}: missing" for key in RULES if key not in data]
    wrong = [
        f"{key}: {data[key]!r:.80} is not {words}"
        for key, (holds, words) in RULES.items()
        if key in data and not holds(data[key])
    ]
    return unknown + missing + wrong


def read(path: Path) -> Expect:
    """Read and judge an expectation.

    Raises:
        BadExpect: It can't be read, or something in it is wrong; all faults are told together.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadExpect(path, [str(error)]) from error
    if faults := _faults(data):
        raise BadExpect(path, faults)
    values = {field.name: data[field.name] for field in fields(Expect)}
    values["forbid"] = {item["name"]: item["reason"] for item in data["forbid"]}
    for key in ("families", "fused_ops", "rotary"):
        values[key] = tuple(data[key])
    return Expect(**values)
