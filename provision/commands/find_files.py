"""Find the files of a repository that may say what it requires."""

import os
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from provision.core.errors import UsageError
from provision.core.text import nearest
from provision.spec.model import with_slashes
from provision.spec.submodules import not_fetched

_DEPTH = 3  # parts of a path; what is deeper was taken over from others
_REQUIREMENTS = re.compile(
    r"pyproject\.toml|([\w.-]+[_.-])?requirements?([_.-][\w.-]+)?\.txt|"
    r"(environment|conda)([_.-][\w.-]+)?\.ya?ml"
)
# How files and extras are called that are for one accelerator.
_NAMES = {
    "cpu": "cpu",
    "cuda": "cuda",
    "cu": "cuda",
    "nvidia": "cuda",
    "xpu": "xpu",
    "intel": "xpu",
}
_ENTRY = re.compile(r"(?P<path>.+?)(?P<part>\[[^\]]*\]|(?<=\.toml):[^:/\\]+)?")
# Of others, or made by a tool; the last two are this toolkit's.
_NOT_ITS_OWN = {
    "node_modules",
    "site-packages",
    "build",
    "dist",
    "lockfiles",
    "wheelhouse",
}


def find_files(root: Path) -> list[str]:
    """Return the files that may say what a repository requires, those of its root first."""
    files = []
    for folder, below, names in os.walk(root):
        inside = Path(folder).relative_to(root)
        below[:] = [name for name in below if _is_own(Path(folder, name))]
        if len(inside.parts) == _DEPTH - 1:
            below.clear()
        for name in names:
            is_list = inside.name == "requirements" and name.endswith(".txt")
            if is_list or _REQUIREMENTS.fullmatch(name):
                files.append((inside / name).as_posix())
    return sorted(files, key=lambda path: (path.count("/"), path))


def _is_own(folder: Path) -> bool:
    """Whether a folder is the repository's own: no cache, no environment."""
    if folder.name.startswith(".") or folder.name in _NOT_ITS_OWN:
        return False
    if folder.is_symlink() or (folder / "pyvenv.cfg").exists():
        return False
    return not (folder / "conda-meta").exists()


def named_files(root: Path, names: Iterable[str]) -> list[str]:
    """Return files that a user names, as a spec does; UsageError for one that is not there."""
    return list(dict.fromkeys(_named(root, name) for name in names))


def _named(root: Path, name: str) -> str:
    path, part = with_slashes(name), ""
    parts = _ENTRY.fullmatch(path)
    if parts:
        path, part = parts["path"], parts["part"] or ""
    resolved = root.resolve()
    for folder in (Path.cwd(), root):
        file = (folder / path).resolve()
        if file.is_file() and file.is_relative_to(resolved):
            return file.relative_to(resolved).as_posix() + part
    close = nearest(path, find_files(root))
    hint = not_fetched(resolved / path, resolved)
    raise UsageError(
        f"there is no file {path!r} in {root}{hint}",
        remedy=f"did you mean {close}?" if close else "name a file of the project",
    )


def accelerators_named(entry: str) -> set[str]:
    """Return the accelerators that a file, or its extra or group, is named after."""
    name = entry
    parts = _ENTRY.fullmatch(entry)
    if parts:
        name = parts["part"] or PurePosixPath(parts["path"]).stem
    words = re.split(r"[^a-z]+", name.lower())
    return {_NAMES[word] for word in words if word in _NAMES}
