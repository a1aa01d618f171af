"""What a machine is matched with: the few keys of every spec that say which hardware it is for.

Whoever asks what fits a machine waits for the answer, and validating eleven whole specs would take
longer than looking at the machine.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from pathlib import Path

    from provision.spec.model import Target

_ACCELERATORS = ("cpu", "cuda", "xpu")
_PLATFORMS = ("linux-64", "win-64")
_STATUSES = ("supported", "legacy")


@dataclass(frozen=True, slots=True)
class TargetHardware:
    """A target's hardware, as its spec names it; see :class:`provision.spec.model.Target`."""

    name: str
    accelerator: str
    platform: str
    status: str = "supported"
    families: tuple[str, ...] = ()
    driver: str | None = None
    compute_capability: str | None = None


def from_target(target: Target) -> TargetHardware:
    """Return what a whole spec says of its hardware."""
    hardware = target.hardware
    return TargetHardware(
        target.name,
        target.accelerator,
        target.platform,
        target.status,
        hardware.families,
        hardware.driver,
        hardware.compute_capability,
    )


def read_hardware(folder: Path) -> list[TargetHardware]:
    """Read the specs of a folder, sorted by name; only what is asked for is validated.

    Raises:
        SpecError: A spec does not say which hardware it is for; all its faults are told.
    """
    return [_read(path) for path in sorted(folder.glob("*.toml"))]


def _read(path: Path) -> TargetHardware:
    try:
        return _candidate(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        from provision.spec.reader import load_spec  # noqa: PLC0415 - slow, and needed for its words only

        return from_target(load_spec(path))


def _candidate(name: str, data: dict[str, Any]) -> TargetHardware:
    hardware = data.get("hardware", {})
    families = hardware.get("families", [])
    if not isinstance(families, list):
        raise TypeError(families)
    for wanted in ("driver", "compute_capability"):
        SpecifierSet(hardware.get(wanted, ""))
    return TargetHardware(
        name,
        _one_of(_ACCELERATORS, data["accelerator"]),
        _one_of(_PLATFORMS, data["platform"]),
        _one_of(_STATUSES, data.get("status", "supported")),
        tuple(families),
        hardware.get("driver"),
        hardware.get("compute_capability"),
    )


def _one_of(allowed: tuple[str, ...], value: str) -> str:
    return allowed[allowed.index(value)]
