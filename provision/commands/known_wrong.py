"""What is known to be wrong with a target's torch: on this machine, or on any of its own."""

from pathlib import Path

from packaging.requirements import Requirement

from provision.catalog.devices import Devices, read_devices
from provision.catalog.known_wrong import KnownWrong
from provision.core.platforms import ACCELERATORS
from provision.host.drivers import DriverVerdict, judge_version
from provision.host.known_wrong import affected_rows, contains_release
from provision.host.model import Host
from provision.lockfile.pip import read_lock
from provision.spec.model import Target


def locked_torch(lock: Path) -> str:
    """Return the release of torch in a lock, "" where there is no lock or no torch in it."""
    return read_lock(lock).versions.get("torch", "") if lock.is_dir() else ""


def rows_here(
    torch: str, accelerator: str, host: Host, devices: Devices
) -> tuple[str, ...]:
    """Return the names of the rows that apply to this machine with a release of torch."""
    affected = affected_rows(torch, accelerator, host, devices)
    return tuple(dict.fromkeys(name for _, name, _ in affected))


def pinned_torch(target: Target) -> str:
    """Return the release of torch that a spec requires exactly, "" where it leaves that open."""
    for text in target.pip.requirements:
        requirement = Requirement(text)
        if requirement.name == "torch":
            for part in requirement.specifier:
                if part.operator == "==":
                    return part.version
    return ""


def rows_of(target: Target, torch: str, catalog: Path) -> dict[str, KnownWrong]:
    """Return the rows that a target's choice of torch has on machines of the target, by name."""
    rows: dict[str, KnownWrong] = {}
    if not torch:
        return rows
    system = _system(target)
    devices = read_devices(catalog)
    for name, row in devices.known_wrong.items():
        if _is_chosen(row, torch, target):
            drivers = row.drivers_of(system)
            floor = target.hardware.driver
            if _is_reachable(drivers, floor, row.vendor, devices):
                rows[name] = row
    return rows


def known_wrong_of(target: Target, torch: str, catalog: Path) -> list[str]:
    """Return one line for each row that a target's choice of torch has on machines of the target."""
    lines = []
    for name, row in rows_of(target, torch, catalog).items():
        affected = row.drivers_of(_system(target))
        drivers = f"driver {affected}" if affected else "any driver"
        lines.append(
            f"torch {torch} on {row.gpus} with {drivers}: "
            f"{row.symptom}; right: {row.right} ({', '.join(row.sources)}) [{name}]"
        )
    return lines


def _system(target: Target) -> str:
    return "windows" if target.platform.startswith("win") else "linux"


def _is_chosen(row: KnownWrong, torch: str, target: Target) -> bool:
    """Whether it is the choice of torch that makes a row concern a target."""
    if row.torch is None or not contains_release(row.torch, torch):
        return False
    return is_for(row, target)


def is_for(row: KnownWrong, target: Target) -> bool:
    """Whether a row is about GPUs and the system of a target, which may take any family."""
    if row.vendor != ACCELERATORS[target.accelerator].vendor:
        return False
    if not row.is_about(_system(target)):
        return False
    families = target.hardware.families
    return not families or row.is_of(families)


def _is_reachable(
    drivers: str | None, floor: str | None, vendor: str, devices: Devices
) -> bool:
    """Whether a driver that a target accepts can be among the affected ones."""
    if drivers is None or floor is None or drivers.startswith(">"):
        return True
    judged = judge_version(floor.lstrip(">="), drivers, vendor, devices)
    return judged.verdict is not DriverVerdict.TOO_OLD
