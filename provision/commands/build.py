"""Build a target: plan, install, verify, prove, publish.

The folder gets its tag first, so that a killed build can be recognised; the record is written after
the checks, and ``current`` is swapped last: until then the previous generation stays in use.
A generation can also be built beside it, for a comparison of locks: that is never in use.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from provision.commands.basis import basis_of
from provision.commands.build_request import BuildRequest, BuildResult, ready_generation
from provision.commands.check import check, require_end
from provision.commands.populate import (
    Installed,
    install_verified,
    plan_build,
    record_generation,
)
from provision.commands.subject import from_generation
from provision.commands.suite import SmokeRequest
from provision.commands.verify import verify_generation
from provision.core.filesystem import is_tagged, make_tagged, read_link, remove_tagged
from provision.core.findings import Finding
from provision.core.in_use import hold
from provision.core.locking import folder_lock, waiting
from provision.core.prefix import site_packages
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import CURRENT, RECORD
from provision.core.text import plural
from provision.core.variables import refuse_separator
from provision.environment import manifest
from provision.environment.contents import Contents, read_contents
from provision.environment.manifest import Generation
from provision.environment.seal import restamp
from provision.environment.stamp import stamp
from provision.environment.uses import use
from provision.lockfile.pip import Lock
from provision.report.model import Report

BESIDE = "it was built beside the current one, for `provision bisect`"


def build(request: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Make a generation of the lock current, or leave everything as it was.

    ToolError: an artifact cannot be obtained, the disk is full, a tool failed, the installed files
    differ from the lock, or their paths are too long for Windows.
    """
    target, home = request.target.name, request.home
    with folder_lock(home, waiting(target, progress)) as held:
        # Child processes inherit the lock: if this process is killed while uv still writes, the
        # next build must wait for uv before it removes the unfinished folder.
        run = functools.partial(run, pass_fds=(held,))
        # Another build may have finished while this one waited for the lock.
        if ready := ready_generation(request):
            return BuildResult(target, ready)
        manifest.sweep(home, progress.note)
        current = manifest.current_generation(home)
        if current and (why := current.misplaced()):
            progress.note(f"{target} {why}; building it again here")
        unchanged = None
        if not request.fresh:
            unchanged = _find_unchanged(request, progress.note)
        if unchanged:
            return _use_again(*unchanged, request, run, progress)
        return _build_new(request, run, progress)


def build_beside(
    request: BuildRequest, run: Run, progress: Progress
) -> tuple[Generation, int | None]:
    """Return a generation of a lock without making it current, and without the quick checks.

    With what holds it, before another program can remove it; see `hold`. One that is there already
    is used again if no file of it has changed. ToolError: as for `build`.
    """
    home = request.home
    with folder_lock(home, waiting(request.target.name, progress)) as held:
        run = functools.partial(run, pass_fds=(held,))
        manifest.sweep(home, progress.note)
        unchanged = _find_unchanged(request, progress.note)
        if unchanged:
            generation, _ = unchanged
            return generation, hold(generation.folder)
        with _new_prefix(home, request.lock, beside=True) as prefix:
            installed = _install(prefix, request, run, progress)
            generation = record_generation(installed, request.proof, BESIDE)
            return generation, hold(prefix)


def _build_new(request: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    with _new_prefix(request.home, request.lock) as prefix:
        installed = _install(prefix, request, run, progress)
        report = _prove(installed.contents, request, run, progress)
        generation = None
        if report is None or report.proves:
            generation = record_generation(installed, request.proof, request.absent)
            use(prefix)
    return BuildResult(
        request.target.name,
        generation,
        installed.plan.size,
        installed.verification,
        report,
    )


def _install(
    prefix: Path, request: BuildRequest, run: Run, progress: Progress
) -> Installed:
    """Install what is requested into a tagged folder, and compare every file with the lock."""
    plan = plan_build(
        request.project,
        request.target,
        request.lock,
        request.supply,
        run=run,
        progress=progress,
    )
    return install_verified(prefix, plan, run, progress)


def _use_again(
    unchanged: Generation,
    contents: Contents,
    request: BuildRequest,
    run: Run,
    progress: Progress,
) -> BuildResult:
    ready = ready_generation(request)
    if ready:  # its files had another time, and are as locked
        return BuildResult(request.target.name, ready)
    report = _prove(contents, request, run, progress)
    if report and not report.proves:
        return BuildResult(request.target.name, None, report=report)
    if report:
        unchanged = manifest.mark_proof(unchanged, "proven", "")
    elif unchanged.record.reason == BESIDE:  # from now on it is an environment in use
        unchanged = manifest.mark_proof(unchanged, request.proof, request.absent)
    use(unchanged.folder)
    return BuildResult(request.target.name, unchanged, report=report)


def _find_unchanged(
    request: BuildRequest, note: Callable[[str], None]
) -> tuple[Generation, Contents] | None:
    """Return a finished generation of the lock of which no file has changed: all are hashed.

    If each one differs, note how: the one in use, else the last.
    """
    lock, forbid, name = request.lock, request.target.pip.forbid, request.target.name
    differences: dict[Path, str] = {}
    folders = sorted(request.home.glob(f"{lock.digest[:16]}*"))
    for folder in filter(is_tagged, folders):
        generation = manifest.read_generation(folder)
        if generation is None or generation.record.lock != lock.digest:
            continue
        if generation.misplaced():  # `build` says so
            continue
        if site_packages(folder) is None:
            differences[folder] = f"{folder.name} has no site-packages any more"
            continue
        # An edit of the installer's cache reaches every generation that shares the file.
        as_left = stamp(folder)
        contents = read_contents(folder, name)
        findings = verify_generation(contents, lock, forbid, deep=True).findings
        if not findings:
            restamp(folder, as_left)
            return generation, contents
        differences[folder] = _first_of(findings)
    if why := _why_again(request, differences):
        note(f"{name}: {why}; it is built again")
    return None


def _first_of(findings: Sequence[Finding]) -> str:
    """Return the first finding with the first of its evidence, and how many more there are."""
    first = findings[0]
    text = ": ".join([first.symptom, *first.evidence[:1]])
    if first.evidence[1:]:
        text += ", …"
    if findings[1:]:
        text += f" (and {plural(len(findings) - 1, 'more difference')})"
    return text


def _why_again(request: BuildRequest, differences: dict[Path, str]) -> str:
    """Return why an environment of this lock is not used again, "" if there was none."""
    now = read_link(request.home / CURRENT)
    if now in differences:
        return differences[now]
    is_ours = now and now.name.startswith(request.lock.digest[:16])
    if now and is_ours and not (now / RECORD).exists():
        return f"{now.name}/{RECORD}, which says that it is complete, is gone"
    return next(reversed(differences.values()), "")


@contextlib.contextmanager
def _new_prefix(home: Path, lock: Lock, *, beside: bool = False) -> Iterator[Path]:
    """Make the folder of a new generation; it is removed unless the block makes it current.

    One that is built beside it is kept if it is finished.
    """
    # A drifted generation of the same lock keeps its folder, because programs may run from it.
    prefix, number = home / lock.digest[:16], 2
    while prefix.exists():
        prefix, number = home / f"{lock.digest[:16]}-{number}", number + 1
    refuse_separator(prefix)
    make_tagged(prefix)
    try:
        yield prefix
    finally:
        is_kept = read_link(home / CURRENT) == prefix
        if beside:
            is_kept = (prefix / RECORD).is_file()
        if not is_kept:
            remove_tagged(prefix)


def _prove(
    contents: Contents, request: BuildRequest, run: Run, progress: Progress
) -> Report | None:
    """Run the quick checks, if they are wanted and the device is here."""
    if request.proof != "proven":
        return None
    checks = SmokeRequest(request.project, request.target, request.stack())
    subject = from_generation(contents.prefix, request.lock)
    basis = functools.partial(basis_of, request.project, request.lock, contents)
    if request.fresh:
        progress.step("all quick checks run: the environment was repaired")
        kept = check(checks, subject, run, progress)
    else:
        kept = check(checks, subject, run, progress, basis)
    require_end(kept, subject)
    return kept.report
