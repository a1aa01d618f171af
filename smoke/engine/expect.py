"""Reader of ``expect.json``: what the toolkit expects of the environment.

The file is one JSON object: ``schema`` (the number `SCHEMA`), every key that ``expectation.json``
requires, and those of its optional ones that apply. Types are there, meanings in `Expect`. Unknown
and missing keys are refused, and all errors are reported together.

Schema 2 added ``intel_devices``, so that device names and ids have one source, the toolkit's
catalog. Schema 3 added ``requirements``; 4 renamed ``driver_verdict`` and ``earlier.reused``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smoke.engine.files import read_table

SCHEMA = 4
RULES = read_table(__file__, "expectation.json")
# What torch says that it lacks on a kind of device, or does in another way, each with its source.
KNOWN = read_table(__file__, "known.json")


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
        accelerator: ``cpu``, ``cuda``, ``xpu`` or ``mps``.
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
        rotary: Kinds of rotary embedding to check: ``half``, ``interleaved``, ``ipex-llm``.
        speedup_over_cpu: Minimum ratio of training speed, device to CPU, or None.
        environment: Environment variables that the target sets.
        driver_verdict: How the toolkit compared this machine's driver with ``driver``:
            a verdict, ``new-enough``, ``too-old`` or ``unknown``, with reason and evidence. None
            where the toolkit did not see the machine, as in an image.
        peaks: Device name -> ``memory`` in GB/s, types in TFLOP/s, as its data sheet promises.
        fallback: Settings of whoever started the toolkit by which torch computes on the CPU what
            the device has no kernel for, and which programs get them; the checks do not.
        foreign: Whether somebody else made the environment, not Provision from a lock: Python and
            ``packages`` are those that it has.
        soak: Seconds for which `health.load` holds its load, None for its own few.
        earlier: What is valid of an earlier run: ``reused``, ids of the checks that passed, and
            ``imported``, the requirements that could be imported. None where everything has to be
            run.
        group: This process in a job of several: ``rank`` and ``size``, ``address`` and ``port`` of
            the store of rank 0, and whose ``store`` that is: ``own``, or the ``launcher``'s. None
            outside of a job.
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
    driver_verdict: Mapping[str, Any] | None = None
    earlier: Mapping[str, list[str]] | None = None
    peaks: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    soak: float | None = None
    foreign: bool = False
    fallback: tuple[str, ...] = ()
    group: Mapping[str, str] | None = None

    @property
    def in_job(self) -> bool:
        """Whether this is one of several processes of a job."""
        return bool(self.group and int(self.group["size"]) > 1)

    def locks(self, name: str) -> bool:
        """Return whether the lock holds a distribution of this normalised name."""
        return name in self.packages

    def release(self, name: str) -> tuple[int, int]:
        """Return major and minor version of a locked distribution, (0, 0) for others."""
        numbers = re.findall(r"\d+", self.packages.get(name, ""))
        numbers += [0, 0]
        return int(numbers[0]), int(numbers[1])

    @property
    def imported(self) -> frozenset[str]:
        """Requirements whose earlier import is still valid."""
        return frozenset((self.earlier or {}).get("imported", ()))

    @property
    def locks_cuda(self) -> bool:
        """Whether the lock holds CUDA's runtime."""
        return any(name.startswith("nvidia-cuda-runtime") for name in self.packages)

    @property
    def on_gpu(self) -> bool:
        """Whether the target has a device besides the CPU."""
        return self.accelerator != "cpu"


def _fits(value: object, shape: Any) -> bool:
    """Say whether plain JSON has a shape, as ``expectation.json`` tells it."""
    match shape:
        case None | bool():
            return type(value) is type(shape)
        case str():
            return isinstance(value, str) and bool(re.fullmatch(shape, value))
        case [item_shape]:
            return isinstance(value, list) and _all_fit(value, item_shape)
        case list():
            return any(_fits(value, choice) for choice in shape)
        case dict():
            return isinstance(value, dict) and _table_fits(value, shape)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and value > shape


def _table_fits(table: dict[str, Any], shape: dict[str, Any]) -> bool:
    if "*" in shape:
        return _all_fit(table.values(), shape["*"])
    if table.keys() != shape.keys():
        return False
    return all(_fits(item, shape[key]) for key, item in table.items())


def _all_fit(items: Iterable[object], shape: Any) -> bool:
    return all(_fits(item, shape) for item in items)


def _faults(data: object) -> list[str]:
    if not isinstance(data, dict):
        return ["not a JSON object"]
    if data.get("schema") != SCHEMA:
        return [f"schema: {data.get('schema')!r}, this suite reads {SCHEMA}"]
    rules = RULES["required"] | RULES["optional"]
    unknown = data.keys() - rules.keys() - {"schema"}
    faults = [f"{key}: unknown key" for key in sorted(unknown)]
    faults += [f"{key}: missing" for key in RULES["required"] if key not in data]
    for key, (shape, words) in rules.items():
        if key in data and not _fits(data[key], shape):
            faults.append(f"{key}: {data[key]!r:.80} is not {words}")
    return faults


def read(path: Path) -> Expect:
    """Read and validate an expectation.

    Raises:
        BadExpect: It can't be read, or it is invalid; all errors are reported together.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadExpect(path, [str(error)]) from error
    if faults := _faults(data):
        raise BadExpect(path, faults)
    del data["schema"]
    data["forbid"] = {item["name"]: item["reason"] for item in data["forbid"]}
    for key in ("requirements", "families", "fused_ops", "rotary", "fallback"):
        data[key] = tuple(data.get(key, ()))
    return Expect(**data)
