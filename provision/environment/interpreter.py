"""The interpreter of an environment (the machine's, uv's or conda's), and digests of its parts."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.findings import Finding
from provision.core.hashing import sha256_file
from provision.core.limits import open_regular
from provision.environment.conda_meta import FOLDER
from provision.environment.findings import finding
from provision.environment.manifest import Interpreter
from provision.environment.reading import venv_settings

# Not part of it: packages, bytecode, and what no program runs (tests, the static library).
_LEFT_OUT = re.compile(r"site-packages|dist-packages|__pycache__|test|config-.*")
_LIBRARY = re.compile(r"(?:libpython3|python3).*\.(?:so|dll|dylib)(?:\..*)?")


def read_interpreter(prefix: Path, version: str) -> Interpreter:
    """Return the interpreter of an environment, of which the full version is known."""
    conda = (prefix / FOLDER).is_dir()
    try:
        base, program = _base(prefix, conda=conda)
        open_regular(program).close()  # a pipe might never end
        library = base / "lib" / f"python{'.'.join(version.split('.')[:2])}"
        if (base / "Lib" / "os.py").is_file():  # of Windows
            library = base / "Lib"
        managed = re.match(r"(?:cpython|pypy|graalpy)-\d", base.name)
        return Interpreter(
            source="conda" if conda else "uv" if managed else "system",
            path=program.relative_to(base).as_posix() if conda else str(program),
            version=version,
            sha256=sha256_file(program),
            stdlib=_digest(base, library),
        )
    except (OSError, ValueError) as error:
        raise ToolError(
            f"cannot read the interpreter of {prefix}",
            evidence=str(error),
            cause="it was removed or replaced",
            remedy="install that Python again, then build again",
        ) from error


def _base(prefix: Path, *, conda: bool) -> tuple[Path, Path]:
    windows = prefix / ("python.exe" if conda else "Scripts/python.exe")
    if not windows.is_file():
        program = (prefix / "bin" / "python").resolve(strict=True)
        return program.parents[1], program
    if conda:
        return prefix, windows
    # Scripts/python.exe only starts the one that pyvenv.cfg names.
    base = Path(venv_settings(prefix).get("home", prefix))
    return base, base / "python.exe"


def python_version(prefix: Path) -> str:
    """Return the full version of an environment's Python."""
    # python-3.11.9-h955ad1f_0.json, but not python-dateutil-2.9.0-….json.
    names = (path.stem.split("-") for path in (prefix / FOLDER).glob("python-*.json"))
    if found := [parts[1] for parts in names if len(parts) == 3]:
        return found[0]
    settings = venv_settings(prefix)
    return settings.get("version_info", settings.get("version", ""))


def _digest(base: Path, library: Path) -> str:
    near = (*base.glob("*python3*"), *(base / "lib").glob("*python3*"))
    files = [path for path in near if _LIBRARY.fullmatch(path.name)]
    for folder, inner, names in os.walk(library):
        inner[:] = [name for name in inner if not _LEFT_OUT.fullmatch(name)]
        files += [Path(folder, name) for name in names if not name.endswith(".pyc")]
    total = hashlib.sha256()
    for path in sorted(filter(Path.is_file, files)):
        total.update(
            f"{path.relative_to(base).as_posix()} {sha256_file(path)}\n".encode()
        )
    return total.hexdigest()


def interpreter_findings(prefix: Path, built: Interpreter | None) -> Iterator[Finding]:
    """Yield what changed in the interpreter since an environment was built."""
    if built is None:  # an older Provision wrote the manifest
        return
    try:
        now = read_interpreter(prefix, built.version).model_dump()
        changed = ", ".join(
            key for key, value in built.model_dump().items() if now[key] != value
        )
    except ToolError as error:
        now, changed = None, error.evidence
    if changed:
        name = "changed-interpreter" if now else "lost-interpreter"
        yield finding(name, f"{built.path}: {changed}", version=built.version)
