"""The public matrix: torch, driver, device and system, each pair proven, slow, wrong or unknown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from provision.catalog.devices import read_devices
from provision.catalog.known_wrong import ANY, KnownWrong
from provision.commands.known_wrong import locked_torch, pinned_torch
from provision.commands.submissions import Entry
from provision.core.project import Project
from provision.report.evidence import Statement
from provision.spec.model import Target
from provision.spec.reader import load_target, target_names

# The checks that warn of nothing but a low speed.
_OF_SPEED = (
    "throughput.training",
    "transfer.speed",
    "health.bandwidth",
    "health.speed",
)
# By the words of conda and of known-wrong.toml.
_SYSTEMS = {
    "linux": "Linux",
    "win": "Windows",
    "windows": "Windows",
    "osx": "macOS",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of one torch, with one driver, on one device and system."""

    vendor: Literal["intel", "nvidia", "apple", "cpu"]
    families: tuple[str, ...]
    """Families of the device."""
    system: str
    """Such as `Linux`."""
    torch: str
    """Release, or a specifier of releases."""
    driver: str
    """Version, or a specifier of versions; "" for a CPU, and for any driver."""
    state: Literal["green", "slow", "wrong", "unknown"]
    target: str = ""
    """The target that was proven, or that waits for somebody with the device."""
    entry: Entry | None = None
    """The signed report behind a green or slow cell."""
    row: str = ""
    """Name of the row of known-wrong.toml behind a wrong cell."""


def matrix(project: Project, entries: Iterable[Entry]) -> list[Cell]:
    """Return all cells: what entries prove, what is known to be wrong, and what waits for a proof."""
    targets = {}
    for name in target_names(project.specs):
        targets[name] = load_target(project.specs, name)
    cells = [_proven(entry, targets[entry.evidence.target]) for entry in entries]
    for name, row in read_devices(project.catalog).known_wrong.items():
        cells += _wrong(name, row)
    for target in targets.values():
        cells += _unknown(project, target, cells)
    return cells


def system_of(platform: str) -> str:
    """Return the name of a platform's system for people, with its processor where that is rare."""
    if platform == "linux-aarch64":
        return "Linux aarch64"
    system = platform.partition("-")[0]
    return _SYSTEMS.get(system, system)


def is_slow(content: Statement) -> bool:
    """Whether a check of speed warned; every required check passed or warned in any evidence."""
    for check in content.predicate.checks:
        name = check.id.partition("@")[0]  # of whichever device
        if check.outcome == "warned" and name in _OF_SPEED:
            return True
    return False


def _vendor(target: Target) -> Literal["intel", "nvidia", "apple", "cpu"]:
    match target.accelerator:
        case "xpu":
            return "intel"
        case "cuda":
            return "nvidia"
        case "mps":
            return "apple"
    return "cpu"


def _proven(entry: Entry, target: Target) -> Cell:
    seen = entry.content.predicate
    return Cell(
        _vendor(target),
        entry.families,
        system_of(target.platform),
        seen.torch or "",
        str(seen.device.get("driver") or ""),
        "slow" if is_slow(entry.content) else "green",
        target.name,
        entry,
    )


def _wrong(name: str, row: KnownWrong) -> Iterator[Cell]:
    for system in row.systems:
        if row.is_about(system):
            yield Cell(
                row.vendor,
                () if row.families == ANY else row.families,
                _SYSTEMS[system],
                str(row.torch or ""),
                str(row.drivers_of(system) or ""),
                "wrong",
                row=name,
            )


def _unknown(project: Project, target: Target, cells: list[Cell]) -> Iterator[Cell]:
    """Yield the families on which nobody has proven a target's torch, with whatever lock.

    A device that can be of several families proves none of them.
    """
    torch = locked_torch(project.lock(target.name)) or pinned_torch(target)
    proven = set[str]()
    for cell in cells:
        same_torch = _release(cell.torch) == _release(torch)
        if cell.target == target.name and same_torch and len(cell.families) == 1:
            proven.update(cell.families)
    families = target.hardware.families
    waiting = tuple(family for family in families if family not in proven)
    if waiting or not (families or proven):
        yield Cell(
            _vendor(target),
            waiting,
            system_of(target.platform),
            torch,
            target.hardware.driver or "",
            "unknown",
            target.name,
        )


def _release(torch: str) -> str:
    """Return a version without its local part, which torch and the lock may write differently."""
    return torch.partition("+")[0]
