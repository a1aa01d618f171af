"""Whose files are trusted: a program that reads another user's project runs what that user wants.

The model is ``safe.directory`` of git. Not on Windows, where folders outside of a user's own are
writable by administrators alone, unless somebody changed that.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from provision.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from provision.core.project import Project

_UNMAPPED = 65534  # /proc/sys/kernel/overflowuid: an owner outside of this user namespace


def require_own_project(project: Project, target: str | None) -> None:
    """Stop if a project that was found, not named, has a part of another user.

    Each part counts: in a folder where all may write, such as ``/tmp``, anybody can add one.
    Permissions do not: who may write by membership of a group was trusted by the owner, and file
    systems without permissions show all files as writable.

    Args:
        project: The project.
        target: The target that is worked with; None for all or none.

    Raises:
        UsageError: There is such a part.
    """
    root, made = project.root, project.root / ".envs"
    parts = [root, project.specs, project.catalog, project.smoke, project.lock(""), made,
             project.archives.parent, root / "noxfile.py"]  # fmt: skip
    if target:
        home = project.environments(target)
        parts += [project.lock(target), home, home / "current"]
    require_own(parts, f"if you trust its owner, name the project: `--project {root}`")


def require_own(paths: Iterable[Path], remedy: str) -> None:
    """Stop at the first path that exists and belongs to a user who is not trusted.

    Trusted are this process's user, root, under sudo the user who called it, and the owner of the
    toolkit that is running. A link must belong to one of them, and so must what it points to.

    Raises:
        UsageError: There is such a path.
    """
    if sys.platform == "win32":
        return
    trusted = {0, os.geteuid(), os.stat(__file__).st_uid}  # noqa: PTH116 - no Path is at hand
    if os.geteuid() == 0 and (caller := os.environ.get("SUDO_UID", "")).isdigit():
        trusted.add(int(caller))
    for path in paths:
        for follow in (False, True):
            try:
                owner = path.stat(follow_symlinks=follow).st_uid
            except OSError:  # absent, or a link to nothing
                break
            if owner not in trusted:
                raise UsageError(
                    f"{path} belongs to another user",
                    evidence=f"its owner has the id {owner}, you have {os.geteuid()}",
                    cause="its owner is unknown in this container"
                    if owner == _UNMAPPED
                    else "what it holds would run with your rights",
                    remedy=remedy,
                )
