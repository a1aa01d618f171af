"""What a project's git history has: the locks and suites that a report of earlier can be about."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from provision.core.errors import SpecError, ToolError
from provision.core.process import clean_environment, run
from provision.core.project import Project
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER, Lock, parse_lock
from provision.report.history import digest_of_suite

_WHOLE = "check it in a clone with its whole history: `git fetch --unshallow`"
_PLAIN = ("100644", "100755")  # git's modes of files that are neither links nor modules


class History:
    """The locks and suites that the commits of a project had; each is read once."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._locks: dict[str, dict[str, Lock]] = {}

    @property
    def has_suite(self) -> bool:
        """Whether the suite is in the project, and not that of an installed toolkit."""
        return self.project.smoke.is_relative_to(self.project.root)

    def lock(self, target: str, digest: str) -> Lock | None:
        """Return the lock of a target that has a digest and was committed, None if there was none.

        ToolError where a shallow clone may lack it.
        """
        if target not in self._locks:
            self._locks[target] = {lock.digest: lock for lock in self._parsed(target)}
        committed = self._locks[target].get(digest)
        if committed is None:
            self._require_whole()
        return committed

    def _parsed(self, target: str) -> Iterator[Lock]:
        folder = self.project.lock(target)
        path = folder.relative_to(self.project.root).as_posix()
        for files in _versions(self.project, path):
            # Those of an earlier schema, or that were committed broken, can be no evidence's.
            with suppress(SpecError):
                yield parse_lock(
                    folder, files.get(PIP_LAYER, ""), files.get(CONDA_LAYER)
                )

    def had_suite(self, digest: str) -> bool:
        """Whether a suite with a digest was committed; ToolError where a shallow clone may lack it."""
        if digest not in self._suites:
            self._require_whole()
        return digest in self._suites

    @cached_property
    def _suites(self) -> frozenset[str]:
        path = self.project.smoke.relative_to(self.project.root).as_posix()
        digests = set[str]()
        for texts in _versions(self.project, path):
            files = {name: text.encode() for name, text in texts.items()}
            digests.add(digest_of_suite(files))
        return frozenset(digests)

    def _require_whole(self) -> None:
        is_shallow = git(self.project, "rev-parse", "--is-shallow-repository")
        if is_shallow.strip() == "true":
            raise ToolError(
                f"the git history of {self.project.root} is cut off",
                evidence="it is a shallow clone, and evidence is of an earlier lock or suite",
                remedy=_WHOLE,
            )


class Change(NamedTuple):
    """A file that differs from a commit."""

    path: str
    is_added: bool
    mode: str  # git's, "" of a file that git does not track


def changed_since(project: Project, commit: str, path: str) -> list[Change]:
    """Return the files below a path that differ from a commit."""
    words = ("diff", "--raw", "--relative", "--no-renames", "-z", commit, "--", path)
    parts = git(project, *words).split("\0")
    changes = []
    for line, name in zip(parts[::2], parts[1::2], strict=False):
        mode = line.split()[1]
        changes.append(Change(name, line.endswith(" A"), mode))
    untracked = git(project, "ls-files", "--others", "-z", "--", path)
    for name in filter(None, untracked.split("\0")):
        changes.append(Change(name, is_added=True, mode=""))
    return changes


def _versions(project: Project, path: str) -> list[dict[str, str]]:
    """Return the texts of a folder's files, by their paths in it, as each commit left them."""
    commits = git(project, "log", "--format=%H", "HEAD", "--", path).split()
    trees = [_tree(project, commit, path) for commit in commits]
    blobs = set[str]()
    for tree in trees:
        blobs.update(tree.values())
    texts = _texts(project, blobs)
    versions = []
    for tree in filter(None, trees):
        versions.append({name: texts[blob] for name, blob in tree.items()})
    return versions


def _tree(project: Project, commit: str, path: str) -> dict[str, str]:
    """Return git's name of the content of each file that a commit has in a folder."""
    blobs = {}
    lines = git(project, "ls-tree", "-r", "-z", commit, f"{path}/").split("\0")
    for line in filter(None, lines):
        head, _, name = line.partition("\t")
        mode, _, blob = head.split()
        if mode in _PLAIN:
            blobs[name.removeprefix(f"{path}/")] = blob
    return blobs


def _texts(project: Project, blobs: Iterable[str]) -> dict[str, str]:
    """Return the texts of contents that git has, by their names."""
    mark = secrets.token_hex(16)  # which none of them has
    names = "\n".join([*blobs, ""])
    contents = git(project, "cat-file", f"--batch={mark}%(objectname)", stdin=names)
    texts = {}
    for part in contents.split(mark)[1:]:
        blob, _, text = part.partition("\n")
        texts[blob] = text.removesuffix("\n")
    return texts


def git(project: Project, *words: str, stdin: str | None = None) -> str:
    """Return what git says in a project's folder; ToolError where it is no repository."""
    settings = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    argv = ["git", "-C", str(project.root), "-c", "core.autocrlf=false", *words]
    done = run(argv, env=clean_environment(extra=settings), stdin=stdin)
    return done.require(
        f"cannot read the git history of {project.root}", remedy=_WHOLE
    ).stdout
