"""What a project's git history has: the locks and suites that a report of earlier can be about."""

import tarfile
from collections.abc import Iterator
from contextlib import suppress

from provision.core.errors import SpecError
from provision.core.process import clean_environment, run
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER, Lock, parse_lock
from provision.report.history import digest_of_suite


def committed_lock(project: Project, target: str, digest: str) -> Lock | None:
    """Return the lock of a target that has a digest and was committed; None if there never was one."""
    folder = project.lock(target)
    path = folder.relative_to(project.root).as_posix()
    for files in _versions(project, path):
        texts = {name: data.decode("utf-8", "replace") for name, data in files.items()}
        # Those of an earlier schema, or that were committed broken, can be no evidence's.
        with suppress(SpecError):
            lock = parse_lock(folder, texts.get(PIP_LAYER, ""), texts.get(CONDA_LAYER))
            if lock.digest == digest:
                return lock
    return None


def is_committed_suite(project: Project, digest: str) -> bool:
    """Whether a suite with a digest was committed."""
    path = project.smoke
    if not path.is_relative_to(project.root):  # the one that the toolkit has
        return False
    for files in _versions(project, path.relative_to(project.root).as_posix()):
        if digest_of_suite(files) == digest:
            return True
    return False


def changed_since(project: Project, commit: str, path: str) -> dict[str, str]:
    """Return the files below a path that differ from a commit: path -> git's letter, ``A`` if added."""
    words = (
        "diff",
        "--name-status",
        "--relative",
        "--no-renames",
        "-z",
        commit,
        "--",
        path,
    )
    parts = git(project, *words).split("\0")
    changed = dict(zip(parts[1::2], parts[::2], strict=False))
    others = git(project, "ls-files", "--others", "-z", "--", path).split("\0")
    return changed | dict.fromkeys(filter(None, others), "A")


def _versions(project: Project, path: str) -> Iterator[dict[str, bytes]]:
    """Yield the files of a folder, by their paths in it, as each commit left them; newest first."""
    for commit in git(project, "log", "--format=%H", "HEAD", "--", path).split():
        with scratch() as folder:
            archive = folder / "files.tar"
            if not git(project, "ls-tree", "--name-only", commit, path):
                continue  # it was removed
            git(project, "archive", "--format=tar", "-o", str(archive), commit, path)
            with tarfile.open(archive) as members:
                yield {
                    member.name.removeprefix(f"{path}/"): opened.read()
                    for member in members
                    if member.isfile() and (opened := members.extractfile(member))
                }


def git(project: Project, *words: str) -> str:
    """Return what git says in a project's folder; ToolError where it is no repository."""
    settings = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    argv = ["git", "-C", str(project.root), "-c", "core.autocrlf=false", *words]
    done = run(argv, env=clean_environment(extra=settings))
    return done.require(
        f"cannot read the git history of {project.root}",
        remedy="check it in a clone with its whole history: `git fetch --unshallow`",
    ).stdout
