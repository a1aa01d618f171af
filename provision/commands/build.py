"""Build a target: from its lock to a verified generation that becomes ``current``.

The order of the steps makes a build atomic. The folder gets its tag first, so that a killed build
can be recognised and removed. The record is written after the verification and the checks, and the
``current`` link is swapped last: until then the previous generation stays in use.
"""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provision import __version__
from provision.core.filesystem import is_tagged, make_tagged, remove_tagged, swap_link, sync_folder
from provision.core.locking import folder_lock
from provision.core.prefix import dist_info_names, drifted, environment_python, site_packages
from provision.core.project import CURRENT
from provision.core.variables import refuse_separator
from provision.environment.manifest import (
    Record,
    current_generation,
    mark_verified,
    next_number,
    read_generation,
    sweep,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.core.project import Project
    from provision.environment.manifest import Generation
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
    absent: str  # why the target's device is not on this machine; empty if it is present
    stack: Callable[[], dict[str, str]]  # reads the layers of this host
    fresh: bool = False  # build even if a generation of this lock exists


@dataclass(frozen=True, slots=True)
class BuildResult:
    """How a build ended."""

    target: str
    generation: Generation | None  # None if the checks failed and nothing was changed
    plan: InstallPlan | None = None  # what was installed; None if an existing generation was used
    verification: Verification | None = None  # None for an existing generation too
    report: Report | None = None  # of the quick checks, if they ran


def build(request: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Make a generation of the lock current, or leave everything as it was.

    Raises:
        ToolError: An artifact cannot be obtained, the disk is full, a tool failed, the installed
            files differ from the lock, or their paths are too long for Windows.
    """
    home = request.project.environments(request.target.name)
    if ready := _ready(home, request):
        return BuildResult(request.target.name, ready)
    waiting = f"another build of {request.target.name} is running; waiting for it to end"
    with folder_lock(home, lambda: progress.note(waiting)) as held:
        # Child processes inherit the lock: if this process is killed while uv still writes, the
        # next build must wait for uv before it removes the unfinished folder.
        run = functools.partial(run, pass_fds=(held,))
        # Another build may have finished while this one waited for the lock.
        if ready := _ready(home, request):
            return BuildResult(request.target.name, ready)
        from provision.environment.seal import drop_seals

        sweep(home, progress.note)
        drop_seals(home)
        if (now := current_generation(home)) and (why := now.misplaced()):
            progress.note(f"{request.target.name} {why}; building it again here")
        found = None if request.fresh else _of_same_lock(home, request)
        return (
            _use_again(home, found, request, run, progress)
            if found
            else _build_new(home, request, run, progress)
        )


def _ready(home: Path, request: BuildRequest) -> Generation | None:
    """Return the current generation if there is nothing to do."""
    now = None if request.fresh else current_generation(home)
    if now is None or now.record.lock != request.lock.digest or _drifted(now):
        return None
    owes_proof = request.smoke and not request.absent and now.record.proof != "proven"
    return None if owes_proof else now


def _drifted(found: Generation) -> bool:
    return drifted(found.folder, found.record.path, found.record.distributions)


def _of_same_lock(home: Path, request: BuildRequest) -> Generation | None:
    """Return a finished generation of the lock of which no file has changed."""
    from provision.environment.verify import verify

    lock, forbid = request.lock, request.target.pip.forbid
    for folder in filter(is_tagged, sorted(home.glob(f"{lock.digest[:16]}*"))):
        found = read_generation(folder)
        if not found or found.record.lock != lock.digest or _drifted(found):
            continue
        # An edit of the installer's cache reaches every generation that shares the file.
        if not verify(folder, lock, forbid, deep=True).findings:
            return found
    return None


def _use_again(
    home: Path, found: Generation, request: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    report = _run_checks(found.folder, request, run, progress)
    if report and not report.proves:
        return BuildResult(request.target.name, None, report=report)
    if report:
        found = mark_verified(found)
    swap_link(home / CURRENT, found.folder)
    return BuildResult(request.target.name, found, report=report)


def _build_new(home: Path, request: BuildRequest, run: Run, progress: Progress) -> BuildResult:
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


def populate_prefix(
    folder: Path, request: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    """Build the requested environment in a tagged folder: install, verify, check, record."""
    from provision.artifacts.wheel_records import local_records
    from provision.commands.own_sources import with_built_wheels
    from provision.doctor.locked import refuse_built
    from provision.environment.seal import Seal, generated_files
    from provision.installer import uv
    from provision.installer.install import check_space, plan_install

    supply = with_built_wheels(request.project, request.lock, request.supply, run, progress)
    known = local_records(request.lock.open, supply.wheelhouses)
    request = replace(request, supply=supply, lock=request.lock.with_records(known))
    plan = plan_install(request.lock, request.supply)
    check_space(folder, plan.disk)
    progress.step(str(plan))
    verification = _install(folder, request, run, progress)
    if foreign := [name for name in verification.drifted if name in request.lock.versions]:
        # uv hashes a wheel when it downloads it, and never again what it keeps of it.
        progress.note(f"uv's cache does not have what is locked of {', '.join(foreign)}: fetching")
        uv.clean_cache(foreign, run)
        remove_tagged(folder)
        make_tagged(folder)
        verification = _install(folder, request, run, progress)
    _refuse(request, verification)
    refuse_built(folder, request.target)
    if open_ := [a.name for a in request.lock.artifacts if a.sha256 in verification.unvouched]:
        progress.note(f"no RECORD is known of {', '.join(open_)}: its files are as uv had them")
    # Before the checks: they run code of the environment.
    seal = Seal(generated_files(folder), known | verification.unvouched)
    report = _run_checks(folder, request, run, progress)
    if report and not report.proves:
        return BuildResult(request.target.name, None, plan, verification, report)
    sync_folder(folder, with_files=True)  # a record on the disk says that the files are there too
    made = write_record(folder, _record(folder, request, verification), seal)
    return BuildResult(request.target.name, made, plan, verification, report)


def _install(folder: Path, request: BuildRequest, run: Run, progress: Progress) -> Verification:
    """Install both layers into a tagged folder, and compare every file with the lock."""
    from provision.commands.own_sources import install_local
    from provision.environment.long_paths import check_path_lengths
    from provision.environment.seal import generated_files, refuse_overwritten
    from provision.environment.verify import verify
    from provision.installer.install import install_pip_layer
    from provision.installer.pip_shim import write_pip_shim

    _make_prefix(folder, request, run, progress)
    write_pip_shim(folder, request.lock)
    before = generated_files(folder)
    try:
        install_pip_layer(environment_python(folder), request.lock, request.supply, run, progress)
        install_local(environment_python(folder), request, run, progress)
    finally:  # an installer fails, too, when a wheel has replaced the interpreter
        refuse_overwritten(folder, before)
    check_path_lengths(folder, progress)
    progress.step("comparing every file with its hash")
    return verify(folder, request.lock, request.target.pip.forbid, deep=True)


def _make_prefix(folder: Path, request: BuildRequest, run: Run, progress: Progress) -> None:
    """Make the prefix for the pip layer: a conda prefix if the lock has one, else a venv."""
    from provision.installer import conda, uv
    from provision.lockfile.conda import conda_packages

    packages = conda_packages(request.lock)
    if not packages:
        version = request.target.python_version
        progress.step(f"making an environment with Python {version}")
        uv.make_venv(folder, version, request.target.name, run)
        return
    progress.step(f"installing {len(packages)} packages of the conda layer")
    conda.make_prefix(
        folder,
        packages,
        request.project.archives,
        run,
        progress,
        wheelhouses=request.supply.wheelhouses,
        offline=request.supply.offline,
    )


def _refuse(request: BuildRequest, result: Verification) -> None:
    from provision.core.errors import ToolError

    if result.findings:
        raise ToolError(
            f"what was installed for {request.target.name} is not what is locked",
            evidence="\n".join(f"{f.symptom}: {', '.join(f.evidence)}" for f in result.findings),
            cause="the installer's cache holds changed files, or the disk is failing",
            remedy="empty the cache with `uv cache clean`, then build again",
        )


def _run_checks(folder: Path, request: BuildRequest, run: Run, progress: Progress) -> Report | None:
    from provision.commands.smoke import SmokeRequest, from_generation, smoke

    if not request.smoke or request.absent:
        return None
    progress.step("running the quick checks")
    asked = SmokeRequest(request.project, request.target, request.stack())
    verified = None if request.fresh else request.lock  # after a repair everything is run
    return smoke(asked, from_generation(folder, request.lock), run, verified)


def _record(folder: Path, request: BuildRequest, verification: Verification) -> Record:
    from provision.core.errors import ToolError
    from provision.environment.interpreter import read_interpreter
    from provision.installer import conda, uv

    site = site_packages(folder)
    if site is None:
        raise ToolError(f"{folder} cannot be read any more", remedy="check it, and build again")
    python = conda.python_version(folder) or uv.python_version(folder)
    return Record(
        target=request.target.name,
        lock=request.lock.digest,
        spec=request.target.digest(),
        python=python,
        interpreter=read_interpreter(folder, python),
        tools={"provision": __version__, "uv": uv.uv_version()},
        distributions=tuple(sorted(dist_info_names(site))),
        tree=verification.tree or "",
        files=verification.files,
        size=verification.size,
        proof="unproven" if request.absent else "proven" if request.smoke else "skipped",
        reason=request.absent,
        built=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        path=str(folder),
        number=next_number(folder.parent),
    )
