"""An interpreter, as a path, a command, a wrapper or a shim names it, and its package folders."""

import os
import re
import shutil
from pathlib import Path

from provision.core.errors import ToolError, UsageError
from provision.core.prefix import site_packages
from provision.core.process import Run
from provision.environment.reading import venv_settings

_TIMEOUT = 10.0  # seconds


def locate(python: str, run: Run) -> Path:
    """Return the interpreter or folder of an environment; UsageError if a program names none."""
    # The program is run only if it has no packages beside it, as pyenv's shims, ``py.exe`` and
    # other wrappers: it may crash or hang.
    path = Path(python).absolute()  # its folders tell the environment
    if (
        not path.exists()
        and not path.is_symlink()
        and (command := shutil.which(python))
    ):
        path = Path(command)
    if sites_of(path) or not path.is_file():
        return path
    try:
        # -S: no site-packages, so that nothing in them runs. A wrapper needs its own variables.
        argv = [str(path), "-I", "-S", "-c", "import sys; print(sys.executable)"]
        answer = run(argv, env=dict(os.environ), timeout=_TIMEOUT).require(
            f"{path} does not run"
        )
    except ToolError as error:
        what = f"{path} does not report which environment it belongs to"
        evidence = "\n".join(filter(None, (error.what, error.evidence)))
        remedy = "give the path of the environment's own interpreter, or of its folder"
        raise UsageError(
            what, evidence=evidence, cause=error.cause, remedy=remedy
        ) from error
    return Path(answer.stdout.strip())


def prefix_of(python: Path) -> Path:
    """Return the folder of an environment, given its interpreter or the folder itself."""
    if python.is_dir():
        programs = python.name in ("bin", "Scripts") and not site_packages(python)
        return python.parent if programs else python
    # Conda on Windows has python.exe in the prefix itself.
    return (
        python.parent.parent
        if python.parent.name in ("bin", "Scripts")
        else python.parent
    )


def sites_of(python: Path) -> list[Path]:
    """Return the folders, if any, from which an interpreter imports packages, in search order."""
    try:
        if not python.exists() and not python.is_symlink():
            return []
        prefix = prefix_of(python)
        config = venv_settings(prefix)
        version = config.get("version_info") or config.get("version") or ""
        minors = re.match(r"3\.\d+", version) or re.search(
            r"3\.\d+$", os.path.realpath(python)
        )
        minor = minors[0] if minors else ""
        found = _folders(prefix, minor)
        if config.get("include-system-site-packages") == "true" and "home" in config:
            found += _folders(prefix_of(prefix / config["home"] / "python"), minor)
    except (OSError, ValueError):
        return []
    return found


def _folders(prefix: Path, minor: str) -> list[Path]:
    # The last two are Debian's: packages of pip, then those of apt, in the order of sys.path.
    known = (
        "Lib/site-packages",
        f"lib/python{minor}/site-packages",
        f"local/lib/python{minor}/dist-packages",
        "lib/python3/dist-packages",
    )
    found = [prefix / place for place in known if (prefix / place).is_dir()]
    other = None if found else site_packages(prefix)
    return found or ([other] if other else [])
