"""Mend an environment that drifted: build it afresh, and fetch again only what is damaged.

An edited file in an environment may be an edited file in uv's cache, since uv links the two. So
the cache's entries of whatever drifted are dropped first; everything else comes from the cache.
The drifted generation serves until the fresh one is proven, then it is removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provision.commands.build import build
from provision.core.filesystem import remove_tagged
from provision.core.locking import folder_lock
from provision.environment.manifest import current_generation
from provision.installer import uv

if TYPE_CHECKING:
    from provision.commands.build import BuildRequest, BuildResult
    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.environment.verify import Verification


def repair(found: Verification, order: BuildRequest, run: Run, progress: Progress) -> BuildResult:
    """Replace a target's current generation by one that equals its lock.

    Args:
        found: What :func:`provision.environment.verify.verify` said.
        order: What to build.
        run: The door.
        progress: Told about the steps.

    Raises:
        ToolError: An artifact cannot be had again; the drifted generation stays as it was.
    """
    home = order.project.environments(order.target.name)
    drifted = current_generation(home)
    locked = [name for name in found.drifted if name in order.lock.versions]
    if locked:
        progress.step(f"dropping from uv's cache: {', '.join(locked)}")
        uv.clean_cache(locked, run)
    built = build(replace(order, fresh=True), run, progress)
    if built.generation and drifted and drifted.folder != built.generation.folder:
        with folder_lock(home, lambda: None):
            remove_tagged(drifted.folder)
    return built
