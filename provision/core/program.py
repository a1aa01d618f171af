"""The name by which this command can be called again, for messages that name the next command."""

import os
import sys
from pathlib import Path


def program_name() -> str:
    """Return ``provision`` where PATH leads to this very program, or else its path from here."""
    script = Path(sys.executable).with_name("provision.exe" if os.name == "nt" else "provision")
    if not script.is_file():
        return "provision"
    # shutil.which() would do the same, but importing shutil loads every archive format.
    folders = os.environ.get("PATH", "").split(os.pathsep)
    found = (os.path.join(folder, script.name) for folder in folders)  # noqa: PTH118 - hot
    first = next((path for path in found if os.access(path, os.X_OK)), None)
    try:
        # Installers of tools put a link to it on PATH.
        if first and os.path.realpath(first) == os.path.realpath(script):
            return "provision"
        return os.path.relpath(script)
    except (OSError, ValueError):  # the current folder is gone, or on another drive of Windows
        return str(script)
