"""The verb ``kernel``: a Jupyter kernel that starts in whatever generation is current then."""

import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from provision.commands.current import require_current
from provision.core.errors import UsageError
from provision.core.filesystem import write_atomic
from provision.core.process import environment_python
from provision.core.project import CURRENT, Project
from provision.lockfile.pip import read_lock


class Kernel(NamedTuple):
    """The file of an installed kernel, and the Python of whatever is current."""

    kernel: Path
    python: Path


def install_kernel(project: Project, target: str, prefix: Path | None) -> Kernel:
    """Write a kernel for the Jupyter of an environment, or of this user."""
    require_current(project, target)
    if "ipykernel" not in read_lock(project.lock(target)).versions:
        raise UsageError.of("no-ipykernel", target=target)
    folder = prefix.absolute() / "share" / "jupyter" if prefix else _user_folder()
    # Jupyter allows these characters in a name. Two projects may have one target each.
    name = re.sub(r"[^a-z0-9._-]+", "-", f"{project.root.name}-{target}".lower())
    # Not the Python of `current`: a kernel that runs would load its next module from another
    # generation after a build. `run` enters one, and sets what the spec sets.
    argv = [
        sys.executable,
        "-I",
        "-m",
        "provision",
        "run",
        "--project",
        str(project.root),
        target,
    ]
    kernel = {
        "argv": [
            *argv,
            "--",
            "python",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
        ],
        "display_name": f"{target} ({project.root.name})",
        "language": "python",
        "interrupt_mode": "message",  # a signal would reach `run` first, and Windows has none
    }
    file = folder / "kernels" / name / "kernel.json"
    write_atomic(file, json.dumps(kernel, indent=1) + "\n")
    return Kernel(file, environment_python(project.environments(target) / CURRENT))


def _user_folder() -> Path:
    """Return Jupyter's data folder of this user (jupyter_core.paths.jupyter_data_dir)."""
    if folder := os.environ.get("JUPYTER_DATA_DIR"):
        return Path(folder).absolute()
    if sys.platform == "win32":
        return (
            Path(os.environ.get("APPDATA") or Path.home() / "AppData/Roaming")
            / "jupyter"
        )
    return (
        Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
        / "jupyter"
    )
