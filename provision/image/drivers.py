"""The driver's user space of an image: whether it meets the target's floor, and its packages.

For NVIDIA GPUs the container toolkit mounts the host's, so an image holds nothing to judge.
"""

from __future__ import annotations

import re
import shutil
import tomllib

from provision.artifacts.parallel_fetch import fetch_all
from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.devices import read_devices
from provision.catalog.snapshot import DriverSet, load_snapshot, names_of
from provision.core.errors import UsageError, damage_in
from provision.core.progress import Progress
from provision.core.project import fact
from provision.core.text import plural
from provision.host.drivers import DriverVerdict, judge_version
from provision.image.request import ImageRequest


def require_drivers(request: ImageRequest) -> DriverSet | None:
    """Return the driver set of an image, if it needs one; UsageError if its driver cannot serve."""
    docker, catalog = request.target.docker, request.project.catalog
    name = docker.drivers if docker else None
    drivers = load_snapshot(catalog, name, DriverSet) if name else None
    _require_floor(request, drivers)
    if drivers and (
        unknown := [file.filename for file in drivers.files if file.sha256 is None]
    ):
        count, file = plural(len(unknown), "package"), catalog / f"{name}.json"
        raise UsageError(
            f"{count} of the driver set {name} without a SHA-256",
            evidence="\n".join(unknown),
            cause="the catalog does not know their hashes, and nothing is "
            "installed unverified",
            remedy=f"run `provision update {name}` where the network reaches the "
            f"vendor: it downloads them and writes their hashes to {file}; "
            "commit that. For a file that you have and trust, "
            "`sha256sum` gives the hash to write there",
        )
    return drivers


def _require_floor(request: ImageRequest, drivers: DriverSet | None) -> None:
    target, catalog = request.target, request.project.catalog
    required = target.hardware.driver
    if target.accelerator != "xpu" or not required:
        return
    own = (drivers.version, "the driver set of its spec") if drivers else None
    version, origin = own or _of_distribution(request)
    devices = read_devices(catalog)
    judged = judge_version(version, required, "intel", devices)
    if judged.verdict is not DriverVerdict.NEW_ENOUGH:
        sets = (
            (n, load_snapshot(catalog, n, DriverSet))
            for n in names_of(catalog, DriverSet)
        )
        others = (
            (n, judge_version(s.version, required, "intel", devices)) for n, s in sets
        )
        enough = [
            name for name, each in others if each.verdict is DriverVerdict.NEW_ENOUGH
        ]
        lines = (
            " or ".join(f'`drivers = "{name}"`' for name in enough)
            or "there is none yet"
        )
        facts = {"target": target.name, "reason": judged.reason, "lines": lines}
        raise UsageError.of(
            "image-unprovable", *judged.evidence, f"from {origin}", **facts
        )


def _of_distribution(request: ImageRequest) -> tuple[str | None, str]:
    """Return the version of the driver that the base image's distribution has, and its origin."""
    base, docker = request.base, request.target.docker
    path = fact(request.project.catalog, "distributions.toml")
    with damage_in(path, "restore it from version control"):
        known = tomllib.loads(path.read_text(encoding="utf-8"))
        at = [
            known[name]
            for name in known
            if re.match(rf"{re.escape(name)}(?![a-z0-9])", base)
        ]
        versions = {
            package: fact["version"] for each in at for package, fact in each.items()
        }
    package = next(
        (name for name in (docker.apt if docker else ()) if name in versions), None
    )
    if package is None:
        return (
            None,
            f"{base}: the spec names no driver set, and no package of a known version",
        )
    return versions[package], f"the package {package} of {base}"


def copy_drivers(drivers: DriverSet, request: ImageRequest, progress: Progress) -> None:
    """Bring the packages of a driver set into the context, with their hashes for the build."""
    docker, supply = request.target.docker, request.supply
    folder = request.context / "system" / "drivers"
    cache = request.context.parent / "drivers"  # keeps downloads for the next image
    wanted = [
        WantedFile(f.filename, str(f.sha256), f.size, f.url, None)
        for f in drivers.files
    ]
    progress.step(f"{plural(len(wanted), 'package')} of the driver {drivers.version}")
    if missing := fetch_all(
        wanted, cache, supply.wheelhouses, progress, offline=supply.offline
    ):
        facts = {
            "count": plural(len(missing), "package"),
            "version": drivers.version,
            "name": docker.drivers if docker else "",
        }
        raise UsageError.of("drivers-missing", *map(str, missing), **facts)
    folder.mkdir()
    for item in wanted:
        shutil.copyfile(cache / item.filename, folder / item.filename)
    # The build checks them again: with --print it runs later, and often on another machine.
    lines = "".join(f"{item.sha256}  {item.filename}\n" for item in wanted)
    (folder / "SHA256SUMS").write_text(lines, encoding="utf-8")
