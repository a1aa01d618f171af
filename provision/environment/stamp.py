"""The stamp of an environment: the size, time and inode of each of its files, in one digest.

It tells in a fraction of a second whether an environment is as it was when every file was hashed.
No content is read: a change that keeps all three, and bytecode, need ``verify --deep``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from provision.core.filesystem import extended
from provision.core.hashing import sha256_bytes
from provision.core.prefix import environment_python
from provision.environment.seal import LATER


def stamp(prefix: Path) -> str:
    """Return the stamp of an environment; SHA-256."""
    lines = sorted(
        line for line in _states(prefix) if line.partition("\0")[0] not in LATER
    )
    # The link to the interpreter is a file of the environment, and its program is none.
    try:
        program = _state(environment_python(prefix).stat())
    except OSError:
        program = "absent"
    return sha256_bytes("\n".join([*lines, program]).encode("utf-8", "surrogateescape"))


def _states(prefix: Path) -> Iterator[str]:
    folders = [(extended(prefix.resolve()), "")]
    while folders:
        folder, base = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    # Python writes bytecode whenever somebody imports a module.
                    if entry.name != "__pycache__":
                        folders.append((entry.path, f"{base}{entry.name}/"))
                else:
                    yield f"{base}{entry.name}\0{_state(entry.stat(follow_symlinks=False))}"


def _state(state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
