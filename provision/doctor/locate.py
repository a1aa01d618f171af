"""Resolution of a --python argument, which may be a path, a command, a wrapper or a shim."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError, UsageError
from provision.doctor.sites import sites_of

if TYPE_CHECKING:
    from provision.core.process import Run

_TIMEOUT = 10.0  # seconds


def locate(python: str, run: Run) -> Path:
    """Return the interpreter, or the folder of the environment, that an argument refers to.

    The program is run only if it has no packages beside it, as pyenv's shims, ``py.exe`` and other
    wrappers: it may crash or hang.

    Args:
        python: A path, or a command that ``PATH`` finds.
        run: Runs a process.

    Raises:
        UsageError: It does not exist, or it was run and did not name its interpreter.
    """
    path = Path(python)
    if not path.exists() and not path.is_symlink() and (command := shutil.which(python)):
        path = Path(command)
    if sites_of(path) or not path.is_file():
        return path
    try:
        # -S: no site-packages, so that nothing in them runs. A wrapper needs its own variables.
        argv = [str(path), "-I", "-S", "-c", "import sys; print(sys.executable)"]
        answer = run(argv, env=dict(os.environ), timeout=_TIMEOUT).require(f"{path} does not run")
    except ToolError as error:
        raise UsageError(
            f"{path} does not report which environment it belongs to",
            evidence="\n".join(filter(None, (error.what, error.evidence))),
            cause=error.cause,
            remedy="give the path of the environment's own interpreter, or of its folder",
        ) from error
    return Path(answer.stdout.strip())
