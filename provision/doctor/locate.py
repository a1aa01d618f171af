"""From the word for a Python to a path that can be read: a command, a wrapper, a shim."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError, UsageError
from provision.doctor.sites import sites_of

if TYPE_CHECKING:
    from provision.core.process import Run

_PATIENCE = 10.0  # seconds


def locate(python: str, run: Run) -> Path:
    """Return the interpreter or the folder that is meant.

    Only where no packages lie beside it, as with pyenv's shims, ``py.exe`` and other wrappers, it
    is asked; it may crash or hang.

    Args:
        python: A path, or a command that ``PATH`` finds.
        run: Runs a process.

    Raises:
        UsageError: There is nothing of that name, or it was asked and gave no answer.
    """
    path = Path(python)
    if not path.exists() and not path.is_symlink() and (command := shutil.which(python)):
        path = Path(command)
    if sites_of(path) or not path.is_file():
        return path
    try:
        # -S: no site-packages, so that nothing in them runs. A wrapper needs its own variables.
        argv = [str(path), "-I", "-S", "-c", "import sys; print(sys.executable)"]
        answer = run(argv, env=dict(os.environ), timeout=_PATIENCE).require(f"{path} does not run")
    except ToolError as error:
        raise UsageError(
            f"{path} does not say which environment it belongs to",
            evidence="\n".join(filter(None, (error.what, error.evidence))),
            cause=error.cause,
            remedy="give the path of the environment's own interpreter, or of its folder",
        ) from error
    return Path(answer.stdout.strip())
