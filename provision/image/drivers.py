"""The driver's user space of an image: whether it meets the target's floor, and its packages.

For NVIDIA GPUs the container toolkit mounts the host's, so an image holds nothing to check.
"""

from pathlib import Path

from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.devices import read_devices
from provision.catalog.snapshot import DriverSet, load_snapshot, names_of
from provision.core.errors import UsageError
from provision.core.platforms import ACCELERATORS
from provision.core.progress import Progress
from provision.core.text import plural
from provision.host.drivers import DriverJudgement, DriverVerdict, judge_version
from provision.image.base import find_base
from provision.image.request import ImageRequest
from provision.image.supply import copy_verified


def require_drivers(request: ImageRequest) -> DriverSet | None:
    """Return the driver set of an image, if it needs one; UsageError if its driver does not fit."""
    drivers = request.drivers()
    _require_floor(request, drivers)
    if drivers:
        path = request.project.catalog / f"{request.docker().drivers}.json"
        _require_hashes(drivers, path)
    return drivers


def _require_hashes(drivers: DriverSet, path: Path) -> None:
    unknown = [file.filename for file in drivers.files if file.sha256 is None]
    if unknown:
        raise UsageError(
            f"{plural(len(unknown), 'package')} of the driver set {path.stem} without a SHA-256",
            evidence="\n".join(unknown),
            cause="the catalog does not know their hashes, and nothing is "
            "installed unverified",
            remedy=f"run `provision update {path.stem}` where the network reaches the "
            f"vendor: it downloads them and writes their hashes to {path}; "
            "commit that. For a file that you have and trust, "
            "`sha256sum` gives the hash to write there",
        )


def _require_floor(request: ImageRequest, drivers: DriverSet | None) -> None:
    target = request.target
    catalog = request.project.catalog
    accelerator = ACCELERATORS[target.accelerator]
    required = target.hardware.driver
    if not accelerator.user_space or not required:
        return
    devices = read_devices(catalog)

    def judge(version: str | None) -> DriverJudgement:
        return judge_version(version, required, accelerator.vendor, devices)

    version, origin = _of_distribution(request)
    if drivers:
        version = drivers.version
        origin = "the driver set of its spec"
    judged = judge(version)
    if judged.verdict is DriverVerdict.NEW_ENOUGH:
        return
    lines = []
    for name in names_of(catalog, DriverSet):
        driver_set = load_snapshot(catalog, name, DriverSet)
        if judge(driver_set.version).verdict is DriverVerdict.NEW_ENOUGH:
            lines.append(f'`drivers = "{name}"`')
    sets = " or ".join(lines) or "there is none yet"
    raise UsageError(
        f"an image of {target.name} could never prove itself",
        evidence="\n".join([*judged.evidence, f"from {origin}"]),
        cause=f"{judged.reason}, and an image brings its own user space of the driver",
        remedy="put a driver set of the catalog that meets it into the spec's [docker]: "
        + sets,
    )


def _of_distribution(request: ImageRequest) -> tuple[str | None, str]:
    """Return the version of the driver that the base image's distribution has, and its origin."""
    base = find_base(request)
    for package in request.docker().apt:
        if package in base.packages:
            return base.packages[package], f"the package {package} of {base.image}"
    unnamed = "the spec names no driver set, and no package of a known version"
    return None, f"{base.image}: {unnamed}"


def copy_drivers(drivers: DriverSet, request: ImageRequest, progress: Progress) -> None:
    """Put the packages of a driver set into the context, with their hashes for the build."""
    files = []
    for file in drivers.files:
        sha256 = str(file.sha256)
        files.append(WantedFile(file.filename, sha256, file.size, file.url, None))
    progress.step(f"{plural(len(files), 'package')} of the driver {drivers.version}")
    folder = request.context / "system" / "drivers"
    catalog = str(request.docker().drivers)
    of = f"the driver {drivers.version}"
    copy_verified(files, folder, request, progress, of=of, catalog=catalog)
