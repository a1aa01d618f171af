"""Programs: this command, as messages name it, and uv."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def uv_program() -> str:
    """Return the path of the uv that is a dependency of this package."""
    # Never one from PATH: the version of uv is part of a lock's identity.
    import uv  # noqa: PLC0415 - imported only to find its program

    return str(uv.find_uv_bin())


def program_name() -> str:
    """Return ``provision`` where PATH leads to this very program, or else its path from here."""
    script = Path(sys.executable).with_name(
        "provision.exe" if os.name == "nt" else "provision"
    )
    if not script.is_file():
        return "provision"
    first = shutil.which(script.name)
    try:
        # Installers of tools put a link to it on PATH.
        if first and os.path.realpath(first) == os.path.realpath(script):
            return "provision"
        return os.path.relpath(script)
    except (
        OSError,
        ValueError,
    ):  # the current folder is gone, or on another drive of Windows
        return str(script)


def elsewhere() -> str:
    """Return the folder of this process as ``, in FOLDER`` where a session's caller is not in it."""
    # nox enters the folder of its noxfile, and paths of messages are relative to that.
    here = Path.cwd()
    caller = Path(os.environ.get("PWD", here))
    if "NOX_CURRENT_SESSION" not in os.environ or not caller.is_dir():
        return ""
    return "" if caller.samefile(here) else f", in {here}"


def naming(project: Path) -> str:
    """Return the option that names a project, and where nox started this command, nox's form of it."""
    option = f"--project {shlex.quote(str(project))}"
    session = os.environ.get("NOX_CURRENT_SESSION")
    if not session:
        return f"`{option}`"
    nox = "nox"
    # In a clone, `python3 noxfile.py` runs the nox of .tools, which is not on PATH.
    if not shutil.which(nox) and (project / "lockfiles" / "tools").is_dir():
        nox = "python3 noxfile.py"
    return f"`{option}`, here `{nox} -s {shlex.quote(session)} -- {option}`"
