"""What a search for the first bad release would build and download, before it does."""

from collections.abc import Sequence
from heapq import nlargest

from provision.artifacts.parallel_fetch import wanted_archive
from provision.artifacts.wheelhouse import WantedFile, find_artifacts
from provision.catalog.snapshot import DriverSet, load_snapshot, names_of
from provision.commands.bisect_candidates import Candidate
from provision.commands.bisect_history import is_built
from provision.commands.bisect_result import (
    Bisection,
    BisectRequest,
    DriverRelease,
    Release,
)
from provision.commands.bisect_search import most_tried
from provision.core.project import Project
from provision.installer.install import plan_install
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Artifact
from provision.spec.model import Target


def plan_of(
    request: BisectRequest, package: str, candidates: Sequence[Candidate]
) -> Bisection:
    """Return the candidates, the good end first, and what their builds take at most."""
    rows = tuple(_row(request, candidate) for candidate in candidates)
    builds = _most_builds(rows)
    download, unsized = _most_bytes(request, candidates, rows, builds)
    return Bisection(
        target=request.target.name,
        package=package,
        check=request.check,
        command=request.command,
        releases=rows,
        builds=builds,
        download=download,
        unsized=unsized,
        offered=_offered(request, package),
        drivers=_drivers(request.project, request.target),
    )


def _offered(request: BisectRequest, package: str) -> str:
    """Return what has the releases that were searched; others may be missing there."""
    if request.supply.offline:
        return ", ".join(map(str, request.supply.wheelhouses)) or "no wheelhouse"
    index = request.target.pip.index_of(package)
    if index == "default":
        return "the default index"
    return f"the catalog of {index}"


def _row(request: BisectRequest, candidate: Candidate) -> Release:
    version, lock = candidate.version, candidate.lock
    if lock is None:
        return Release(
            version, None, 0, 0, 0, built=False, outcome="skipped", why=candidate.why
        )
    size = plan_install(lock, request.supply)
    built = is_built(request.home, lock)
    return Release(version, lock.digest, size.fetch, size.unsized, size.disk, built)


def _most_builds(rows: Sequence[Release]) -> int:
    """Return how many are built at most, if each gives a verdict.

    An end that a report tells is built, too, where it is next to the other side of the answer.
    """
    between = rows[1:-1]
    locked = [row for row in between if row.lock]
    open_between = len(_open(between))
    open_ends = len(_open((rows[0], rows[-1])))
    return open_ends + min(open_between, most_tried(len(locked)))


def _open(rows: Sequence[Release]) -> list[Release]:
    """Return the releases that have a lock and are not built."""
    return [row for row in rows if row.lock and not row.built]


def _most_bytes(
    request: BisectRequest,
    candidates: Sequence[Candidate],
    rows: Sequence[Release],
    builds: int,
) -> tuple[int, int]:
    """Return the bytes to download for some builds, and how many files have no known size.

    Releases share most of their files.
    """
    files: dict[str, Artifact | WantedFile] = {}
    for row, candidate in zip(rows, candidates, strict=True):
        if candidate.lock and not row.built:
            for artifact in candidate.lock.artifacts:
                files[artifact.sha256] = artifact
            for package in conda_packages(candidate.lock):
                files[package.sha256] = wanted_archive(package)
    local = find_artifacts(files.values(), request.supply.wheelhouses)
    sizes = [file.size for file in files.values() if file not in local]
    largest = nlargest(builds, [row.download for row in _open(rows)])
    most_unsized = nlargest(builds, [row.unsized for row in _open(rows)])
    download = min(sum(filter(None, sizes)), sum(largest))
    return download, min(sizes.count(None), sum(most_unsized))


def _drivers(project: Project, target: Target) -> tuple[DriverRelease, ...]:
    """Return the driver sets of the catalog, for a target whose image has one."""
    if not (target.docker and target.docker.drivers):
        return ()
    rows = []
    for name in names_of(project.catalog, DriverSet):
        drivers = load_snapshot(project.catalog, name, DriverSet)
        download = sum(file.size or 0 for file in drivers.files)
        rows.append(DriverRelease(name, drivers.version, download))
    return tuple(rows)
