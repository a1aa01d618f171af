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
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

SCHEMA = 3
ACCELERATORS = ("cpu", "cuda", "xpu", "mps")
# What torch says that it lacks on a kind of device, or does in another way, each with its source.
KNOWN = json.loads(Path(__file__).with_name("known.json").read_text(encoding="utf-8"))
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
        accelerator: One of `ACCELERATORS`.
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


def _fits(value: object, shape: Any) -> bool:  # noqa: ANN401 - see below
    """Say whether plain JSON has a shape.

    A shape is a pattern of texts, ``float`` for numbers above 0, None, a tuple of alternatives,
    ``[each]``, ``{str: each}`` for any keys, or a table with the shape of each key.
    """
    match shape:
        case re.Pattern():
            return isinstance(value, str) and bool(shape.fullmatch(value))
        case tuple():
            return any(_fits(value, each) for each in shape)
        case [each]:
            return isinstance(value, list) and all(_fits(item, each) for item in value)
        case dict() if isinstance(value, dict):
            same = str in shape or shape.keys() == value.keys()
            return same and all(_fits(item, shape.get(key, shape.get(str)))
                                for key, item in value.items())  # fmt: skip
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and value > 0 if shape is float else shape is value  # type: ignore[operator]


_ANY, _TEXT, _FLOOR = re.compile("(?s).*"), re.compile("(?s).+"), re.compile(">=(?s:.*)")
_TEXTS, _TABLE = [_TEXT], {str: _ANY}
_VERDICT = {"verdict": re.compile("|".join(VERDICTS)), "reason": _TEXT, "evidence": _TEXTS}
RULES: dict[str, tuple[Any, str]] = {
    "target": (_TEXT, "a name"),
    "accelerator": (re.compile("|".join(ACCELERATORS)), f"one of {', '.join(ACCELERATORS)}"),
    "python": (_TEXT, "major.minor, for instance 3.11"),
    "packages": (_TABLE, "a table of name = version"),
    "requirements": (_TEXTS, "a list of names"),
    "forbid": ([{"name": _ANY, "reason": _ANY}], "a list of {name, reason}"),
    "driver": ((None, _FLOOR), "null or '>=version'"),
    "families": (_TEXTS, "a list of names"),
    "intel_devices": ({str: {"ids": _TEXTS, "names": _TEXTS}}, "a table of family = {ids, names}"),
    "fused_ops": (_TEXTS, "a list of operator names"),
    "rotary": ([re.compile("|".join(ROTARY))], f"a list out of {', '.join(ROTARY)}"),
    "speedup_over_cpu": ((None, float), "null or a number above 0"),
    "environment": (_TABLE, "a table of name = text"),
}
OPTIONAL: dict[str, tuple[Any, str]] = {
    "driver_judgement": ((None, _VERDICT), "null or a table of verdict, reason and evidence"),
    "earlier": ((None, {"settled": _TEXTS, "changed": _TEXTS}),
                "null or a table of settled and changed"),
    "peaks": ({str: {str: float}}, "a table of name = {kind = number above 0}"),
    "soak": (float, "a number of seconds above 0"),
}  # fmt: skip


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
        for key, (shape, words) in rules.items()
        if key in data and not _fits(data[key], shape)
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
