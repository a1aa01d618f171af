"""The project's own packages (`[pip] local`): their folders, and what of them decides a lock."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from provision.spec.requirement_files import read_requirement_files

if TYPE_CHECKING:
    from pathlib import Path

    from provision.spec.model import Target

_MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg")
# Of [project] what an installation depends on: a new version or readme makes no lock stale.
_KEYS = ("name", "dependencies", "optional-dependencies", "requires-python", "scripts",
         "gui-scripts", "entry-points")  # fmt: skip


def local_folder(text: str, root: Path) -> Path:
    """Return the folder of an entry such as ``-e .[dev]``."""
    return (root / re.sub(r"\[[^\]]*\]$", "", text.removeprefix("-e ").strip())).resolve()


def manifests(target: Target, root: Path) -> list[Path]:
    """Return the files that say what the own packages require."""
    files = (local_folder(text, root) / name for text in target.pip.local for name in _MANIFESTS)
    return [path for path in files if path.is_file()]


def input_files(target: Target, root: Path) -> list[str]:
    """Return the files beside the spec that decide a lock, relative to the project's folder."""
    read = [*read_requirement_files(root, target.pip.files).read, *manifests(target, root)]
    top = root.resolve()
    inside = (path.relative_to(top) for path in read if path.is_relative_to(top))
    return list(dict.fromkeys(path.as_posix() for path in inside))


def local_digest(target: Target, root: Path) -> str | None:
    """Return the SHA-256 of what the own packages require; None where there are none here."""
    found = manifests(target, root)
    if not found:
        return None
    total = hashlib.sha256(json.dumps(target.pip.local).encode())
    for path in found:
        total.update(path.name.encode() + _part(path))
    return total.hexdigest()


def _part(path: Path) -> bytes:
    content = path.read_bytes()
    if path.name != "pyproject.toml":
        return content
    try:
        project: dict[str, Any] = tomllib.loads(content.decode())["project"]
    except (KeyError, ValueError):  # for another tool, or for uv to refuse
        return content
    if "dependencies" in project.get("dynamic", ()):
        return content
    return json.dumps({key: project.get(key) for key in _KEYS}, sort_keys=True).encode()
