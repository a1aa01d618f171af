"""The stamp of an environment: the size, time and inode of each of its files, in one digest.

It tells in a fraction of a second whether an environment is as it was when every file was hashed.
No content is read: a change that keeps all three, and bytecode, need ``verify --deep``.
"""

import hashlib
import os
from pathlib import Path

from provision.core.filesystem import extended
from provision.core.prefix import environment_python
from provision.environment.seal import LATER


def stamp(prefix: Path) -> str:
    """Return the stamp of an environment; SHA-256."""
    total = hashlib.sha256()
    # The link to the interpreter is a file of the environment, and its program is none.
    try:
        total.update(_state(environment_python(prefix).stat()).encode())
    except OSError:
        total.update(b"absent")
    folders = [(extended(prefix.resolve()), "")]
    while folders:
        folder, place = folders.pop()
        inner, states = _listed(folder)
        if not place:
            states = {name: states[name] for name in states.keys() - LATER}
        text = f"{place}\n"
        for name in sorted(states):
            text += f"{name}\0{states[name]}\n"
        total.update(text.encode("utf-8", "surrogateescape"))
        for name in sorted(inner):
            folders.append((os.path.join(folder, name), f"{place}{name}/"))  # noqa: PTH118 - 20,000
    return total.hexdigest()


def _listed(folder: str) -> tuple[list[str], dict[str, str]]:
    """Return the names of the folders in a folder, and its files with their attributes."""
    inner = []
    states = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                states[entry.name] = _state(entry.stat(follow_symlinks=False))
            # Python writes bytecode whenever somebody imports a module.
            elif entry.name != "__pycache__":
                inner.append(entry.name)
    return inner, states


def _state(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
