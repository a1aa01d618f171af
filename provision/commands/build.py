"""Build a target: from its lock to a verified generation that becomes ``current``.

The folder gets its tag first, so that a killed build can be recognised; the record is written after
the checks, and ``current`` is swapped last: until then the previous generation stays in use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.filesystem import is_tagged, make_tagged, remove_tagged, swap_link
from provision.core.locking import folder_lock, waiting
from provision.core.prefix import drifted
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import CURRENT, Project
from provision.core.variables import refuse_separator
from provision.environment import manifest

if TYPE_CHECKING:
    from provision.environment.verify import Verification
    from provision.installer.install import ArtifactSources, InstallPlan
    from provision.lockfile.pip import Lock
    from provision.report.model import Report
    from provision.spec.model import Target

# Modules that only an actual build needs are imported where they are used: imports would be the
# largest part of the time that a build with nothing to do takes.
# ruff: noqa: PLC0415


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build."""

    project: Project
    target: Target
    lock: Lock
    supply: ArtifactSources
    smoke: bool  # run the quick checks
    absent: (
        str  # why the target's device is not on this machine; empty if it is present
    )
    stack: Callable[[], dict[str, str]]  # reads the layers of this host
    fresh: bool = False  # build even if a generation of this lock exists


@dataclass(frozen=True, slots=True)
class BuildResult:
    """How a build ended."""

    target: str
    generation: (
        manifest.Generation | None
    )  # None if the checks failed and nothing was changed
    plan: InstallPlan | None = (
        None  # what was installed; None if an existing generation was used
    )
    verification: Verification | None = None  # None for an existing generation too
    report: Report | None = None  # of the quick checks, if they ran


def build(request: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Make a generation of the lock current, or leave everything as it was.

    ToolError: an artifact cannot be obtained, the disk is full, a tool failed, the installed files
    differ from the lock, or their paths are too long for Windows.
    """
    home = request.project.environments(request.target.name)
    if ready := _ready(home, request):
        return BuildResult(request.target.name, ready)
    with folder_lock(home, waiting(request.target.name, progress)) as held:
        # Child processes inherit the lock: if this process is killed while uv still writes, the
        # next build must wait for uv before it removes the unfinished folder.
        run = functools.partial(run, pass_fds=(held,))
        # Another build may have finished while this one waited for the lock.
        if ready := _ready(home, request):
            return BuildResult(request.target.name, ready)
        manifest.sweep(home, progress.note)
        if (now := manifest.current_generation(home)) and (why := now.misplaced()):
            progress.note(f"{request.target.name} {why}; building it again here")
        found = None if request.fresh else _of_same_lock(home, request)
        if found:
            return _use_again(home, found, request, run, progress)
        return _build_new(home, request, run, progress)


def _ready(home: Path, request: BuildRequest) -> manifest.Generation | None:
    """Return the current generation if there is nothing to do."""
    now = None if request.fresh else manifest.current_generation(home)
    if now is None or now.record.lock != request.lock.digest or _drifted(now):
        return None
    owes_proof = request.smoke and not request.absent and now.record.proof != "proven"
    return None if owes_proof else now


def _drifted(found: manifest.Generation) -> bool:
    return drifted(found.folder, found.record.path, found.record.distributions)


def _of_same_lock(home: Path, request: BuildRequest) -> manifest.Generation | None:
    """Return a finished generation of the lock of which no file has changed."""
    from provision.environment.verify import verify

    lock, forbid = request.lock, request.target.pip.forbid
    for folder in filter(is_tagged, sorted(home.glob(f"{lock.digest[:16]}*"))):
        found = manifest.read_generation(folder)
        if not found or found.record.lock != lock.digest or _drifted(found):
            continue
        # An edit of the installer's cache reaches every generation that shares the file.
        if not verify(folder, lock, forbid, deep=True).findings:
            return found
    return None


def _use_again(
    home: Path,
    found: manifest.Generation,
    request: BuildRequest,
    run: Run,
    progress: Progress,
) -> BuildResult:
    report = run_checks(found.folder, request, run, progress)
    if report and not report.proves:
        return BuildResult(request.target.name, None, report=report)
    if report:
        found = manifest.mark_verified(found)
    swap_link(home / CURRENT, found.folder)
    return BuildResult(request.target.name, found, report=report)


def _build_new(
    home: Path, request: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    from provision.commands.populate import populate_prefix

    folder = _free_folder(home, request.lock)
    refuse_separator(folder)
    make_tagged(folder)
    try:
        built = populate_prefix(folder, request, run, progress)
        if built.generation:
            swap_link(home / CURRENT, folder)
    except BaseException:
        remove_tagged(folder)
        raise
    if not built.generation:
        remove_tagged(folder)
    return built


def _free_folder(home: Path, lock: Lock) -> Path:
    """Return the folder of a new generation.

    A drifted generation of the same lock keeps its folder, because programs may run from it.
    """
    first = home / lock.digest[:16]
    others = (first.with_name(f"{first.name}-{number}") for number in range(2, 1000))
    return next(path for path in (first, *others) if not path.exists())


def run_checks(
    folder: Path, request: BuildRequest, run: Run, progress: Progress
) -> Report | None:
    """Run the quick checks, if the request wants them and the device is here."""
    from provision.commands.smoke import SmokeRequest, from_generation, smoke

    if not request.smoke or request.absent:
        return None
    asked = SmokeRequest(request.project, request.target, request.stack())
    verified = (
        None if request.fresh else request.lock
    )  # after a repair everything is run
    return smoke(asked, from_generation(folder, request.lock), run, progress, verified)
