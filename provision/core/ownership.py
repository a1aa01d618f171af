"""Whose files are trusted, after ``safe.directory`` of git; Windows has no such check."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from provision.core.errors import UsageError
from provision.core.project import Project

_UNMAPPED = (
    65534  # /proc/sys/kernel/overflowuid: an owner outside of this user namespace
)


def require_own_project(project: Project, target: str | None) -> None:
    """Stop if a project that was found, not named, has a part of another user."""
    # Every part counts, because in a folder such as ``/tmp`` anybody can add one. Permissions do
    # not: an owner who lets a group write trusts it, and some file systems show all files as
    # writable.
    root, home = project.root, project.environments(target or "")
    parts = [
        root,
        project.specs,
        project.catalog,
        project.smoke,
        root / "lockfiles",
        project.lock(target or ""),
        root / ".envs",
        root / ".cache",
        home,
        home / "current",
    ]
    require_own(parts, f"if you trust its owner, name the project: `--project {root}`")


def require_own(paths: Iterable[Path], remedy: str) -> None:
    """Stop at the first path whose owner is not trusted; of a link, also what it points to."""
    # Trusted are this process's user, root, the user who called sudo, and the toolkit's own owner.
    if sys.platform == "win32":
        return
    me = os.geteuid()
    trusted = {0, me, os.stat(__file__).st_uid}  # noqa: PTH116 - no Path is at hand
    if me == 0 and (caller := os.environ.get("SUDO_UID", "")).isdigit():
        trusted.add(int(caller))
    for path, follow in ((path, follow) for path in paths for follow in (False, True)):
        try:
            owner = path.stat(follow_symlinks=follow).st_uid
        except OSError:  # absent, or a link to nothing
            continue
        if owner not in trusted:
            unknown = (
                ", which this container does not know" if owner == _UNMAPPED else ""
            )
            evidence = f"its owner has the id {owner}{unknown}; yours is {me}"
            raise UsageError(
                f"{path} belongs to another user",
                evidence=evidence,
                cause="what it holds would run with your rights",
                remedy=remedy,
            )
