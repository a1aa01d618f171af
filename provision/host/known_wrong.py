"""Which numbers are known to be wrong on a machine, with one release of torch."""

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.devices import Devices
from provision.catalog.known_wrong import KnownWrong
from provision.host.drivers import DriverVerdict, driver_version, judge_version
from provision.host.model import Gpu, Host


def affected(
    row: KnownWrong, torch: str, gpu: Gpu, host: Host, devices: Devices
) -> bool:
    """Whether a row applies to a GPU with this torch, as far as its driver can be compared."""
    system = "windows" if host.platform.startswith("win") else "linux"
    if not row.has_ranges or not row.concerns(gpu.family, gpu.device_id, system):
        return False
    if row.torch and not contains_release(row.torch, torch):
        return False
    drivers = row.drivers_of(system)
    if drivers is None:
        return True
    version = driver_version(gpu, host)
    judged = judge_version(version, drivers, gpu.vendor, devices)
    return judged.verdict is DriverVerdict.NEW_ENOUGH


def affected_rows(
    torch: str, host: Host, devices: Devices
) -> list[tuple[Gpu, str, KnownWrong]]:
    """Return each GPU of a machine with the name and the row of what is wrong with it.

    Nothing where there is no torch, "".
    """
    rows = []
    for gpu in host.gpus:
        for name, row in devices.known_wrong.items():
            if torch and affected(row, torch, gpu, host, devices):
                rows.append((gpu, name, row))
    return rows


def known_wrong(torch: str, host: Host, devices: Devices) -> list[str]:
    """Return one line for each GPU and row that applies: what is wrong, what is right, who says so."""
    lines = []
    for gpu, name, row in affected_rows(torch, host, devices):
        driver = driver_version(gpu, host)
        lines.append(
            f"{gpu.name} with torch {torch} and driver {driver}: {row.symptom}; "
            f"right: {row.right} ({', '.join(row.sources)}) [{name}]"
        )
    return lines


def contains_release(specifier: str, torch: str) -> bool:
    """Whether a release of torch, with any local part, is in a range."""
    release = Version(torch).public
    return SpecifierSet(specifier).contains(release, prereleases=True)
