"""The project's own packages (`[pip] local`): their folders, and what of them decides a lock."""

import json
import os
import tomllib
from pathlib import Path

from provision.core.hashing import sha256_bytes
from provision.spec.model import Target
from provision.spec.requirement_files import read_requirement_files

_METADATA = ("pyproject.toml", "setup.py", "setup.cfg")
_BACKENDS = (
    "setuptools",
    "setuptools_scm",
    "poetry",
    "hatch",
    "flit",
    "pdm",
    "maturin",
)


def local_folder(text: str, root: Path) -> Path:
    """Return the folder of an entry such as ``-e .[dev]``."""
    return (root / text.removeprefix("-e ").partition("[")[0].strip()).resolve()


def local_digest(target: Target, root: Path) -> str:
    """Return the SHA-256 of what the own packages require; "" where there are none."""
    parts = [_deciding_part(path) for path in _metadata(target, root)]
    return sha256_bytes(b"\0".join(parts)) if parts else ""


def input_files(target: Target, root: Path, *, own: bool = False) -> list[str]:
    """Return the requirement files of a spec, and with ``own`` the metadata of its own packages."""
    paths = read_requirement_files(root, target.pip.files).read
    if own:
        paths += _metadata(target, root)
    return [Path(os.path.relpath(path, root.resolve())).as_posix() for path in paths]


def _metadata(target: Target, root: Path) -> list[Path]:
    paths = []
    for text in target.pip.local:
        for name in _METADATA:
            path = local_folder(text, root) / name
            if path.is_file():
                paths.append(path)
    return paths


def _deciding_part(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".toml":
        return content
    try:  # the settings of a linter make no lock stale
        document = tomllib.loads(content.decode())
    except ValueError:
        return content
    tools = {key: document.get("tool", {}).get(key) for key in _BACKENDS}
    kept = [document.get("project"), document.get("build-system"), tools]
    return json.dumps(kept, sort_keys=True, default=str).encode()
