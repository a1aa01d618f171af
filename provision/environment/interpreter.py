"""The interpreter of an environment (the machine's, uv's or conda's), and digests of its parts."""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

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
        source: Literal["uv", "system", "conda"] = "system"
        path = str(program)
        if conda:
            source = "conda"
            path = program.relative_to(base).as_posix()
        elif re.match(r"(?:cpython|pypy|graalpy)-\d", base.name):
            source = "uv"
        return Interpreter(
            source=source,
            path=path,
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
    for path in (prefix / FOLDER).glob("python-*.json"):
        # python-3.11.9-h955ad1f_0.json, but not python-dateutil-2.9.0-….json.
        parts = path.stem.split("-")
        if len(parts) == 3:
            return parts[1]
    settings = venv_settings(prefix)
    return settings.get("version_info", settings.get("version", ""))


def _digest(base: Path, library: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(filter(Path.is_file, _files(base, library))):
        place = path.relative_to(base).as_posix()
        total.update(f"{place} {sha256_file(path)}\n".encode())
    return total.hexdigest()


def _files(base: Path, library: Path) -> Iterator[Path]:
    for folder in (base, base / "lib"):
        for path in folder.glob("*python3*"):
            if _LIBRARY.fullmatch(path.name):
                yield path
    for place, folders, names in os.walk(library):
        folders[:] = [name for name in folders if not _LEFT_OUT.fullmatch(name)]
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(place, name)


def interpreter_findings(prefix: Path, built: Interpreter | None) -> Iterator[Finding]:
    """Yield what changed in the interpreter since an environment was built."""
    if built is None:  # an older Provision wrote the manifest
        return
    try:
        now = read_interpreter(prefix, built.version).model_dump()
    except ToolError as error:
        evidence = f"{built.path}: {error.evidence}"
        yield finding("lost-interpreter", evidence, version=built.version)
        return
    before = built.model_dump()
    changed = [key for key in before if now[key] != before[key]]
    if changed:
        evidence = f"{built.path}: {', '.join(changed)}"
        yield finding("changed-interpreter", evidence, version=built.version)
