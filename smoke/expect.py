"""Reader of ``expect.json``: what the toolkit expects of the environment.

The file is one JSON object: ``schema`` (the number `SCHEMA`), every key of `RULES`, and those of
`OPTIONAL` that apply. Types are there, meanings in `Expect`. ``forbid`` is a list of ``{"name",
"reason"}``. Unknown and missing keys are refused, and all faults are reported together.

Schema 2 added ``intel_devices``, so that device names and ids have one source, the toolkit's
catalog. Schema 3 added ``requirements``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SCHEMA = 3
ACCELERATORS = ("cpu", "cuda", "xpu")
ROTARY = ("half", "interleaved", "ipex-llm")
VERDICTS = ("new-enough", "too-old", "unknown")


class BadExpect(Exception):  # noqa: N818
    """The file is unreadable or invalid; ``faults`` lists everything that is wrong with it."""

    def __init__(self, path: Path, faults: list[str]) -> None:
        super().__init__(f"{path}: " + "; ".join(faults))
        self.faults = faults


@dataclass(frozen=True)
class Expect:
    """The content of ``expect.json``: what one target promises.

    Attributes:
        target: Name of the target, for the report.
        accelerator: ``cpu``, ``cuda`` or ``xpu``.
        python: ``major.minor`` of the interpreter.
        packages: Every locked distribution, normalised name to version.
        requirements: Distributions that the spec names, normalised: its users import them.
        forbid: Distributions that must not be installed: name to reason.
        driver: Minimum driver version, as ``>=version``, or None.
        families: Hardware families that the target is for; empty means any.
        intel_devices: Intel family -> ``{"ids": [...], "names": [...]}``: PCI device ids in four
            hexadecimal digits, marketing names. Of the toolkit's catalog; empty where the target
            is for no Intel GPU.
        fused_ops: Qualified names of fused operators that must work on the device.
        rotary: Kinds of rotary embedding to check: see `ROTARY`.
        speedup_over_cpu: Minimum ratio of training speed, device to CPU, or None.
        environment: Environment variables that the target sets.
        driver_judgement: The toolkit's judgement of this machine's driver against ``driver``:
            ``{"verdict": one of `VERDICTS`, "reason": text, "evidence": [text, ...]}``. None where
            the toolkit did not see the machine, as in an image.
        peaks: Device name -> ``memory`` in GB/s, types in TFLOP/s, as its data sheet promises.
        soak: Seconds for which `health.load` holds its load, None for its own few.
        earlier: What of an earlier run may stand: ``settled``, ids of the checks that passed or
            were not owed, and ``changed``, normalised names of the distributions that differ since
            then, or require one that does. None where everything has to be run.
    """

    target: str
    accelerator: str
    python: str
    packages: Mapping[str, str]
    requirements: tuple[str, ...]
    forbid: Mapping[str, str]
    driver: str | None
    families: tuple[str, ...]
    intel_devices: Mapping[str, Mapping[str, list[str]]]
    fused_ops: tuple[str, ...]
    rotary: tuple[str, ...]
    speedup_over_cpu: float | None
    environment: Mapping[str, str]
    driver_judgement: Mapping[str, Any] | None = None
    earlier: Mapping[str, list[str]] | None = None
    peaks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    soak: float | None = None

    def locks(self, name: str) -> bool:
        """Return whether the lock holds a distribution of this normalised name."""
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


def _table(
    value: object, holds: Callable[[Any], bool] = lambda each: isinstance(each, str)
) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def _factor(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _keys(value: object, *names: str) -> bool:
    return isinstance(value, dict) and set(value) == set(names)


def _judgement(value: Any) -> bool:  # noqa: ANN401 - plain JSON
    return (
        _keys(value, "verdict", "reason", "evidence")
        and value["verdict"] in VERDICTS
        and _text(value["reason"])
        and _texts(value["evidence"])
    )


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "target": (_text, "a name"),
    "accelerator": (lambda value: value in ACCELERATORS, f"one of {', '.join(ACCELERATORS)}"),
    "python": (_text, "major.minor, for instance 3.11"),
    "packages": (_table, "a table of name = version"),
    "requirements": (_texts, "a list of names"),
    "forbid": (
        lambda value: (
            isinstance(value, list)
            and all(_keys(each, "name", "reason") and _table(each) for each in value)
        ),
        "a list of {name, reason}",
    ),
    "driver": (
        lambda value: value is None or (_text(value) and value.startswith(">=")),
        "null or '>=version'",
    ),
    "families": (_texts, "a list of names"),
    "intel_devices": (
        lambda value: _table(
            value, lambda each: _keys(each, "ids", "names") and _table(each, _texts)
        ),
        "a table of family = {ids, names}",
    ),
    "fused_ops": (_texts, "a list of operator names"),
    "rotary": (
        lambda value: _texts(value) and set(value) <= set(ROTARY),
        f"a list out of {', '.join(ROTARY)}",
    ),
    "speedup_over_cpu": (
        lambda value: value is None or _factor(value),
        "null or a number above 0",
    ),
    "environment": (_table, "a table of name = text"),
}
OPTIONAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "driver_judgement": (
        lambda value: value is None or _judgement(value),
        "null or a table of verdict, reason and evidence",
    ),
    "earlier": (
        lambda value: (
            value is None or (_keys(value, "settled", "changed") and _table(value, _texts))
        ),
        "null or a table of settled and changed",
    ),
    "peaks": (
        lambda value: _table(value, lambda each: _table(each, _factor)),
        "a table of name = {kind = number above 0}",
    ),
    "soak": (_factor, "a number of seconds above 0"),
}


def _faults(data: object) -> list[str]:
    if not isinstance(data, dict):
        return ["not a JSON object"]
    if data.get("schema") != SCHEMA:
        return [f"schema: {data.get('schema')!r}, this suite reads {SCHEMA}"]
    rules = RULES | OPTIONAL
    unknown = [f"{key}: unknown key" for key in sorted(set(data) - set(rules) - {"schema"})]
    missing = [f"{key}: missing" for key in RULES if key not in data]
    wrong = [
        f"{key}: {data[key]!r:.80} is not {words}"
        for key, (holds, words) in rules.items()
        if key in data and not holds(data[key])
    ]
    return unknown + missing + wrong


def read(path: Path) -> Expect:
    """Read and validate an expectation.

    Raises:
        BadExpect: It can't be read, or it is invalid; all faults are reported together.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadExpect(path, [str(error)]) from error
    if faults := _faults(data):
        raise BadExpect(path, faults)
    values = {each.name: data[each.name] for each in fields(Expect) if each.name in data}
    values["forbid"] = {item["name"]: item["reason"] for item in data["forbid"]}
    for key in ("requirements", "families", "fused_ops", "rotary"):
        values[key] = tuple(data[key])
    return Expect(**values)
