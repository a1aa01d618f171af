"""Repair an environment that drifted: build a new generation, and fetch only what is damaged.

uv hard-links files from its cache, where an edit of them shows too: so it is cleaned first.
"""

from dataclasses import replace

from provision.commands.build import build
from provision.commands.build_request import BuildRequest, BuildResult
from provision.commands.generations import difference_of
from provision.core.in_use import remove_unused
from provision.core.locking import folder_lock, waiting
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import RECORD, Project
from provision.environment import manifest
from provision.environment.seal import drop_seals, restamp
from provision.environment.verification import Verification
from provision.installer import uv


def repair(
    found: Verification, request: BuildRequest, run: Run, progress: Progress
) -> BuildResult:
    """Replace a target's current generation by one that equals its lock, or leave it as it was."""
    home = request.project.environments(request.target.name)
    drifted = manifest.current_generation(home)
    locked = [name for name in found.drifted if name in request.lock.versions]
    if locked:
        progress.step(f"removing from uv's cache: {', '.join(locked)}")
        uv.clean_cache(locked, run)
    built = build(replace(request, fresh=True), run, progress)
    _distrust_others(built, drifted, request, progress)
    if built.generation and drifted and drifted.folder != built.generation.folder:
        with folder_lock(home, waiting(request.target.name, progress)):
            if user := remove_unused(drifted.folder):
                # Without its record `rollback` passes by it; the next build or clean removes it.
                (drifted.folder / RECORD).unlink()
                progress.note(manifest.kept_in_use(drifted.folder, user))
            drop_seals(home)
    return built


def finish(project: Project, target: str, progress: Progress) -> None:
    """Remove what a repair left that was killed when the new generation was already in use."""
    home = project.environments(target)
    with folder_lock(home, waiting(target, progress)):
        manifest.sweep(home, progress.note)


def _distrust_others(
    built: BuildResult,
    drifted: manifest.Generation | None,
    request: BuildRequest,
    progress: Progress,
) -> None:
    """Let no other generation be used again that is not as its build recorded it."""
    # They share files with the drifted one through uv's cache, so they may have its edits.
    home = request.project.environments(request.target.name)
    for other in manifest.finished_generations(home):
        if other == built.generation:  # which was just verified
            continue
        if why := difference_of(other, request.lock):
            manifest.mark_proof(other, "unproven", why)
            restamp(other.folder, "")
            if other != drifted:  # which is about to be removed
                progress.note(
                    f"the earlier environment {other.folder.name} is unproven now: {why}"
                )
