"""Lock -> a verified, proven, current generation; whole or not at all."""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision import __version__
from provision.core.filesystem import make_tagged, remove_tagged, swap_link
from provision.core.locking import folder_lock
from provision.core.prefix import dist_info_names, site_packages
from provision.core.project import CURRENT
from provision.environment.manifest import (
    Record,
    current_generation,
    mark_verified,
    read_generation,
    unfinished_generations,
    write_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.core.project import Project
    from provision.environment.manifest import Generation, Proof
    from provision.environment.verify import Verification
    from provision.installer.install import ArtifactSources, InstallPlan
    from provision.lockfile.pip import Lock
    from provision.report.model import Report
    from provision.spec.model import Target

# What the heavy half of a build needs is imported where it is used: finding out that there is
# nothing to do takes a fraction of a second, of which imports would be the largest part.
# ruff: noqa: PLC0415


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build.

    Attributes:
        smoke: Run the quick checks.
        absent: Why the target's device is not on this machine; empty where it is.
        stack: Reads the layers of this host; see :func:`provision.host.model.host_layers`.
        fresh: Build even where a generation of this lock is there.
    """

    project: Project
    target: Target
    lock: Lock
    supply: ArtifactSources
    smoke: bool
    absent: str
    stack: Callable[[], dict[str, str]]
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class BuildResult:
    """How a build ended.

    Attributes:
        generation: In use now; None where the checks failed and nothing was changed.
        plan: What was installed; None where an existing generation served.
        verification: The comparison with the lock; None where an existing generation served.
        report: Of the quick checks, where this run made them.
    """

    target: str
    generation: Generation | None
    plan: InstallPlan | None = None
    verification: Verification | None = None
    report: Report | None = None


def build(order: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Bring a target's ``current`` to its lock, or leave everything as it was.

    Raises:
        ToolError: An artifact cannot be had, the disk is full, a tool failed, or what was
            installed is not what is locked, or lies deeper than Windows lets programs read.
    """
    home = order.project.environments(order.target.name)
    if ready := _ready(home, order):
        return BuildResult(order.target.name, ready)
    waiting = f"another build of {order.target.name} is running; waiting for it to end"
    with folder_lock(home, lambda: progress.note(waiting)) as held:
        # Whatever this starts holds the lock too, so that nobody sweeps a folder in use.
        run = functools.partial(run, pass_fds=(held,))
        if ready := _ready(home, order):
            return BuildResult(order.target.name, ready)
        for folder in unfinished_generations(home):
            remove_tagged(folder)
        found = None if order.fresh else _of_same_lock(home, order.lock)
        return (
            _use_again(home, found, order, run, progress)
            if found
            else _build_new(home, order, run, progress)
        )


def _ready(home: Path, order: BuildRequest) -> Generation | None:
    """Return the current generation if there is nothing to do."""
    now = None if order.fresh else current_generation(home)
    if now is None or now.record.lock != order.lock.digest or has_drifted(now):
        return None
    owes_proof = order.smoke and not order.absent and now.record.proof != "proven"
    return None if owes_proof else now


def has_drifted(generation: Generation) -> bool:
    """Whether distributions came or went since the build; costs one directory listing."""
    site = site_packages(generation.folder)
    return site is None or dist_info_names(site) != set(generation.record.distributions)


def _of_same_lock(home: Path, lock: Lock) -> Generation | None:
    """Return a finished generation of a lock that has not drifted."""
    for folder in sorted(home.glob(f"{lock.digest[:16]}*")):
        found = read_generation(folder)
        if found and found.record.lock == lock.digest and not has_drifted(found):
            return found
    return None


def _use_again(
    home: Path, found: Generation, order: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    report = _prove(found.folder, order, run, progress)
    if report and report.failed:
        return BuildResult(order.target.name, None, report=report)
    if report:
        found = mark_verified(found)
    swap_link(home / CURRENT, found.folder)
    return BuildResult(order.target.name, found, report=report)


def _build_new(home: Path, order: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    folder = _free_folder(home, order.lock)
    make_tagged(folder)
    try:
        built = populate_prefix(folder, order, run, progress)
        if built.generation:
            swap_link(home / CURRENT, folder)
    except BaseException:
        remove_tagged(folder)
        raise
    if not built.generation:
        remove_tagged(folder)
    return built


def _free_folder(home: Path, lock: Lock) -> Path:
    """Return where a new generation goes; a drifted one of the same lock keeps its folder."""
    first = home / lock.digest[:16]
    others = (first.with_name(f"{first.name}-{number}") for number in range(2, 1000))
    return next(path for path in (first, *others) if not path.exists())


def populate_prefix(folder: Path, order: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Make the environment of an order in a tagged folder: install, verify, prove, record.

    Raises:
        ToolError: As :func:`build`; the folder is left as it is then.
    """
    from provision.core.process import environment_python
    from provision.environment.long_paths import check_path_lengths
    from provision.installer.install import check_space, install_pip_layer, plan_install

    plan = plan_install(order.lock, order.supply)
    check_space(folder, plan.disk)
    progress.step(str(plan))
    _make_prefix(folder, order, run, progress)
    install_pip_layer(environment_python(folder), order.lock, order.supply, run, progress)
    check_path_lengths(folder, progress)
    verification = _verify(folder, order, progress)
    report = _prove(folder, order, run, progress)
    if report and report.failed:
        return BuildResult(order.target.name, None, plan, verification, report)
    made = write_record(folder, _record(folder, order, verification))
    return BuildResult(order.target.name, made, plan, verification, report)


def _make_prefix(folder: Path, order: BuildRequest, run: Run, progress: Progress) -> None:
    """Make what the pip layer goes into: a conda prefix where the lock has one, or a venv."""
    from provision.installer import conda, uv
    from provision.lockfile.conda import conda_packages

    packages = conda_packages(order.lock)
    if not packages:
        progress.step(f"making an environment with Python {order.target.python}")
        uv.make_venv(folder, order.target.python, run)
        return
    progress.step(f"laying out {len(packages)} packages of the conda layer")
    conda.make_prefix(
        folder,
        packages,
        order.project.archives,
        run,
        progress,
        wheelhouses=order.supply.wheelhouses,
        offline=order.supply.offline,
    )


def _verify(folder: Path, order: BuildRequest, progress: Progress) -> Verification:
    from provision.core.errors import ToolError
    from provision.environment.verify import verify

    progress.step("comparing every file with its hash")
    result = verify(folder, order.lock, order.target.pip.forbid, deep=True)
    if result.findings:
        raise ToolError(
            f"what was installed for {order.target.name} is not what is locked",
            evidence="\n".join(f"{f.symptom}: {', '.join(f.evidence)}" for f in result.findings),
            cause="the installer's cache holds changed files, or the disk is failing",
            remedy="empty the cache with `uv cache clean`, then build again",
        )
    return result


def _prove(folder: Path, order: BuildRequest, run: Run, progress: Progress) -> Report | None:
    from provision.commands import smoke

    if not order.smoke or order.absent:
        return None
    progress.step("running the quick checks")
    subject = smoke.from_generation(folder, order.lock)
    return smoke.smoke(order.project, order.target, subject, order.stack(), run)


def _proof(order: BuildRequest) -> Proof:
    if order.absent:
        return "unproven"
    return "proven" if order.smoke else "skipped"


def _record(folder: Path, order: BuildRequest, verification: Verification) -> Record:
    from provision.installer import conda, uv

    site = site_packages(folder)
    assert site is not None  # noqa: S101 - verify() has read it
    return Record(
        target=order.target.name,
        lock=order.lock.digest,
        spec=order.target.digest(),
        python=conda.python_version(folder) or uv.python_version(folder),
        tools={"provision": __version__, "uv": uv.uv_version()},
        distributions=tuple(sorted(dist_info_names(site))),
        tree=verification.tree or "",
        files=verification.files,
        size=verification.size,
        proof=_proof(order),
        reason=order.absent,
        built=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
    )
