"""A git repository of what is here now, also of what the last commit lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from provision.commands.freshness import lockable_names
from provision.core.project import Project

ROOT = Path(__file__).parents[1]
PROJECT = Project(ROOT)
LOCKABLE = lockable_names(PROJECT)  # the targets that have a lock


def git(root: Path, *words: str | Path) -> str:
    """Run git in a folder, as nobody in particular."""
    argv = [
        "git",
        "-C",
        root,
        "-c",
        "user.name=Test",
        "-c",
        "user.email=test@example.org",
        *words,
    ]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def commit_all(root: Path) -> str:
    """Commit all files of a folder, which becomes a repository; return the commit."""
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["commit", "--quiet", "-m", "all"],
    ):
        git(root, *words)
    return git(root, "rev-parse", "HEAD").strip()


def commit_copy(root: Path) -> str:
    """Copy this repository, without its tests and documents, and commit that."""
    copy_files(root, without=("tests/", "docs/"))
    return commit_all(root)


def copy_files(root: Path, *, without: tuple[str, ...] = ()) -> None:
    """Copy the files of this repository, except those below some folders."""
    names = git(
        ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z"
    ).split("\0")
    for name in filter(None, names):
        if not name.startswith(without) and (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
