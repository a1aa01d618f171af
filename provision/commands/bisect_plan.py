"""What a search for the first bad release would build and download, before it does."""

from collections.abc import Sequence

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
    rows = tuple(_row(request, one) for one in candidates)
    builds = _most_builds(rows)
    download, unsized = _most_bytes(request, candidates, rows, builds)
    return Bisection(
        request.target.name,
        package,
        request.check,
        request.command,
        rows,
        builds,
        download,
        unsized,
        _offered(request, package),
        drivers=_drivers(request.project, request.target),
    )


def _offered(request: BisectRequest, package: str) -> str:
    """Return what has the releases that were searched; others may be missing there."""
    if request.supply.offline:
        return ", ".join(map(str, request.supply.wheelhouses)) or "no wheelhouse"
    index = request.target.pip.index_of(package)
    return "the default index" if index == "default" else f"the catalog of {index}"


def _row(request: BisectRequest, one: Candidate) -> Release:
    if one.lock is None:
        return Release(
            one.version, None, 0, 0, 0, built=False, outcome="skipped", why=one.why
        )
    size = plan_install(one.lock, request.supply)
    home = request.project.environments(request.target.name)
    return Release(
        one.version,
        one.lock.digest,
        size.fetch,
        size.unsized,
        size.disk,
        is_built(home, one.lock),
    )


def _most_builds(rows: Sequence[Release]) -> int:
    """Return how many are built at most, if each gives a verdict.

    An end that a report tells is built, too, where it is next to the other side of the answer.
    """
    is_open = [row.lock is not None and not row.built for row in rows]
    between = sum(row.lock is not None for row in rows[1:-1])
    ends = is_open[0] + is_open[-1]
    return ends + min(sum(is_open[1:-1]), most_tried(between))


def _most_bytes(
    request: BisectRequest,
    candidates: Sequence[Candidate],
    rows: Sequence[Release],
    builds: int,
) -> tuple[int, int]:
    """Return the bytes to download for some builds, and how many files have no known size.

    Releases share most of their files.
    """
    open_ = [row for row in rows if row.lock and not row.built]
    files: dict[str, Artifact | WantedFile] = {}
    for row, one in zip(rows, candidates, strict=True):
        if one.lock and not row.built:
            files |= {file.sha256: file for file in one.lock.artifacts}
            for conda in conda_packages(one.lock):
                files[conda.sha256] = wanted_archive(conda)
    found = find_artifacts(files.values(), request.supply.wheelhouses)
    sizes = [one.size for one in files.values() if one not in found]
    each = sorted((row.download for row in open_), reverse=True)
    unsized = sorted((row.unsized for row in open_), reverse=True)
    return (
        min(sum(size or 0 for size in sizes), sum(each[:builds])),
        min(sizes.count(None), sum(unsized[:builds])),
    )


def _drivers(project: Project, target: Target) -> tuple[DriverRelease, ...]:
    """Return the driver sets of the catalog, for a target whose image has one."""
    if not (target.docker and target.docker.drivers):
        return ()
    rows = []
    for name in names_of(project.catalog, DriverSet):
        one = load_snapshot(project.catalog, name, DriverSet)
        download = sum(file.size or 0 for file in one.files)
        rows.append(DriverRelease(name, one.version, download))
    return tuple(rows)
