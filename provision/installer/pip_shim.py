"""A ``pip`` for environments that lock none: it says how a package is added.

Without it, `pip` in an activated environment is the system's, which installs somewhere else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from provision.core.prefix import scripts_folder

if TYPE_CHECKING:
    from pathlib import Path

    from provision.lockfile.pip import Lock

_WORDS = """\
pip would change this environment, which is built from the lock of TARGET.
  provision add TARGET NAME    adds a package: to the spec, the lock and here
  provision sbom TARGET        lists what is installed
"""


def write_pip_shim(prefix: Path, lock: Lock) -> None:
    """Write the programs, unless the environment has or will have a pip of its own."""
    folder = scripts_folder(prefix)
    if "pip" in lock.versions or any(folder.glob("pip*")):
        return
    text, suffix = f"#!/bin/sh\ncat >&2 <<'END'\n{_WORDS}END\nexit 1\n", ""
    if sys.platform == "win32":
        lines = "".join(f">&2 echo {line}\n" for line in _WORDS.splitlines())
        text, suffix = f"@echo off\n{lines}exit /b 1\n", ".cmd"
    for name in ("pip", "pip3"):
        path = folder / (name + suffix)
        path.write_text(text.replace("TARGET", lock.folder.name), encoding="utf-8")
        path.chmod(0o755)
