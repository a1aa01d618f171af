"""Which numbers are known to be wrong on a machine, with one release of torch."""

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.devices import Devices
from provision.catalog.known_wrong import KnownWrong
from provision.core.platforms import ACCELERATORS
from provision.host.drivers import DriverVerdict, driver_version, judge_version
from provision.host.model import Gpu, Host


def rows_of_torch(
    torch: str, accelerator: str, devices: Devices
) -> dict[str, KnownWrong]:
    """Return the rows by name that a torch for an accelerator has on some GPU, none for ""."""
    vendor = ACCELERATORS[accelerator].vendor
    rows = {}
    for name, row in devices.known_wrong.items():
        if not torch or row.vendor != vendor or not row.has_ranges:
            continue
        if row.torch is None or contains_release(row.torch, torch):
            rows[name] = row
    return rows


def affected(row: KnownWrong, gpu: Gpu, host: Host, devices: Devices) -> bool:
    """Whether a row applies to a GPU, as far as its driver can be compared."""
    system = "windows" if host.platform.startswith("win") else "linux"
    if gpu.vendor != row.vendor:
        return False
    if not row.concerns(gpu.family, gpu.device_id, system):
        return False
    drivers = row.drivers_of(system)
    if drivers is None:
        return True
    version = driver_version(gpu, host)
    judged = judge_version(version, drivers, gpu.vendor, devices)
    return judged.verdict is DriverVerdict.NEW_ENOUGH


def affected_rows(
    torch: str, accelerator: str, host: Host, devices: Devices
) -> list[tuple[Gpu, str, KnownWrong]]:
    """Return each GPU that torch is for, with the name and the row of what is wrong with it."""
    rows = []
    of_torch = rows_of_torch(torch, accelerator, devices)
    for gpu in host.gpus:
        for name, row in of_torch.items():
            if affected(row, gpu, host, devices):
                rows.append((gpu, name, row))
    return rows


def known_wrong(
    torch: str, accelerator: str, host: Host, devices: Devices
) -> list[str]:
    """Return one line for each GPU and row that applies: what is wrong, what is right, who says so."""
    lines = []
    for gpu, name, row in affected_rows(torch, accelerator, host, devices):
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
