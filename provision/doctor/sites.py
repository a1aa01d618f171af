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
_PROGRAMS = ("bin", "Scripts")  # names of folders


def locate(python: str, run: Run) -> Path:
    """Return the interpreter or folder of an environment; UsageError if a program names none."""
    # The program is run only if it has no packages beside it, as pyenv's shims, ``py.exe`` and
    # other wrappers: it may crash or hang.
    path = Path(python).absolute()  # its folders tell the environment
    command = shutil.which(python)
    if command and not path.exists() and not path.is_symlink():
        path = Path(command)
    path = _followed(path)
    if sites_of(path) or not path.is_file():
        return path
    try:
        # -S: no site-packages, so that nothing in them runs. A wrapper needs its own variables.
        argv = [str(path), "-I", "-S", "-c", "import sys; print(sys.executable)"]
        answer = run(argv, env=dict(os.environ), timeout=_TIMEOUT)
        answer.require(f"{path} does not run")
    except ToolError as error:
        raise UsageError(
            f"{path} does not report which environment it belongs to",
            evidence=f"{error.what}\n{error.evidence}".rstrip(),
            cause=error.cause,
            remedy="give the path of the environment's own interpreter, or of its folder",
        ) from error
    return _followed(Path(answer.stdout.strip()))


def _followed(python: Path) -> Path:
    """Return the interpreter whose folders one imports from: a link's own in a venv alone.

    Python itself looks for ``pyvenv.cfg`` beside the link, and else follows it to its end.
    """
    if not os.path.islink(python) or not python.is_file():  # noqa: PTH114 - it can raise
        return python
    end = Path(os.path.realpath(python))
    is_own = end.parent == Path(os.path.realpath(python.parent))
    if is_own or venv_settings(prefix_of(python)) or not sites_of(end):
        return python
    return end


def prefix_of(python: Path) -> Path:
    """Return the folder of an environment, given its interpreter or the folder itself."""
    if python.is_dir():
        if python.name in _PROGRAMS and not site_packages(python):
            return python.parent
        return python
    if python.parent.name in _PROGRAMS:
        return python.parent.parent
    return python.parent  # conda on Windows has python.exe in the prefix itself


def sites_of(python: Path) -> list[Path]:
    """Return the folders, if any, from which an interpreter imports packages, in search order."""
    try:
        if not python.exists() and not python.is_symlink():
            return []
        prefix = prefix_of(python)
        config = venv_settings(prefix)
        version = config.get("version_info") or config.get("version", "")
        minor = _minor(python, version)
        sites = _folders(prefix, minor)
        if config.get("include-system-site-packages") == "true" and "home" in config:
            sites += _folders(prefix_of(prefix / config["home"] / "python"), minor)
    except (OSError, ValueError):
        return []
    return sites


def _minor(python: Path, version: str) -> str:
    """Return the minor version of an interpreter, by its settings or its name, or ""."""
    named = re.search(r"3\.\d+$", os.path.realpath(python))
    number = re.match(r"3\.\d+", version) or named
    return number[0] if number else ""


def _folders(prefix: Path, minor: str) -> list[Path]:
    # The last two are Debian's: packages of pip, then those of apt, in the order of sys.path.
    places = (
        "Lib/site-packages",
        f"lib/python{minor}/site-packages",
        f"local/lib/python{minor}/dist-packages",
        "lib/python3/dist-packages",
    )
    folders = [prefix / place for place in places if (prefix / place).is_dir()]
    other = site_packages(prefix)
    if not folders and other:
        return [other]
    return folders
