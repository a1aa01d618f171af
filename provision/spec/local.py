"""The project's own packages (`[pip] local`): their folders, and what of them decides a lock."""

import configparser
import contextlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.limits import is_inside, read_bytes
from provision.spec.model import ARCHIVE, Target
from provision.spec.pip_files import logical_lines
from provision.spec.pyproject import FAULTS, METADATA, own_package, table

# Of a requirements file, which setup.py or a plug-in of a build reads; without bounds, a long
# word would take quadratic time.
_NAMED = re.compile(r"""["'\s]([\w./-]{0,200}?require[\w./-]{0,200}\.(?:txt|in))\b""")
# https://setuptools.pypa.io/en/latest/userguide/declarative_config.html
_FILE = re.compile(r"file:([^\n]+)")
_BACKENDS = "setuptools", "setuptools_scm", "poetry", "hatch", "flit", "pdm", "maturin"


def local_digest(target: Target, root: Path) -> str:
    """Return the SHA-256 of what the own packages require; "" where there are none."""
    parts = list(map(_deciding_part, _metadata(target, root)))
    return sha256_bytes(b"\0".join(parts)) if parts else ""


def input_digests(target: Target, root: Path) -> dict[str, str]:
    """Return a digest of what each file beside a spec says of requirements, by its path."""
    digests = dict(target.inputs.digests)
    for path in _metadata(target, root):
        place = Path(os.path.relpath(path, root.resolve())).as_posix()
        digests[place] = sha256_bytes(_deciding_part(path))[:12]
    return digests | archive_digests(target, root)


def archive_digests(target: Target, root: Path) -> dict[str, str]:
    """Return a digest of each wheel and sdist of the project that a target requires, by its path."""
    digests = {}
    for text in target.pip.requirements:
        url = (Requirement(text).url or "").partition("#")[0]
        path = url.removeprefix(ARCHIVE)
        if path != url and (root / path).is_file():  # in an image or a bundle it is not
            digests[path] = sha256_file(root / path)[:12]
    return digests


def _metadata(target: Target, root: Path) -> list[Path]:
    """Return the files of own packages that say what these require."""
    paths: list[Path] = []
    for text in target.pip.local:
        folder = own_package(text, root)
        if folder is None:
            continue
        for name in METADATA:
            if (folder / name).is_file():
                paths += _with_named(folder / name)
    return list(dict.fromkeys(paths))


def _with_named(path: Path) -> Iterator[Path]:
    """Yield a file and those with requirements that it names."""
    yield path
    text = read_bytes(path).decode("utf-8", errors="replace")
    names = [*_NAMED.findall(text), *_of_setuptools(path.name, text)]
    for name in dict.fromkeys(names):
        named = path.parent / name
        if named.is_file() and is_inside(named, path.parent):
            yield named


def _of_setuptools(filename: str, text: str) -> Iterator[str]:
    """Yield the files that setuptools reads dependencies and extras from, whatever their names.

    What cannot be parsed names none: the build of the package says what is wrong with it.
    """
    with contextlib.suppress(configparser.Error, *FAULTS):
        if filename == "setup.cfg":
            yield from _of_setup_cfg(text)
        elif filename == "pyproject.toml":
            yield from _of_pyproject(text)


def _of_setup_cfg(text: str) -> Iterator[str]:
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(text)
    values = [config.get("options", "install_requires", fallback="")]
    if config.has_section("options.extras_require"):
        values += config["options.extras_require"].values()
    for names in _FILE.findall("\n".join(values)):
        for name in names.split(","):
            yield name.strip()


def _of_pyproject(text: str) -> Iterator[str]:
    dynamic = table(tomllib.loads(text), "tool", "setuptools", "dynamic")
    tables = [table(dynamic, "dependencies")]
    extras = table(dynamic, "optional-dependencies")
    tables += [table(extras, name) for name in extras]
    for requirements in tables:
        files = requirements.get("file", [])
        if isinstance(files, str):
            files = [files]
        yield from map(str, files)


def _deciding_part(path: Path) -> bytes:
    content = read_bytes(path)
    if path.name not in METADATA:
        with contextlib.suppress(ValueError):  # of a line without an end
            lines = list(logical_lines(content.decode("utf-8", errors="replace")))
            return "\n".join(line for _, line in lines).encode()
        return content
    if path.name != "pyproject.toml":
        return content
    try:  # the settings of a linter make no lock stale
        document = tomllib.loads(content.decode())
    except ValueError:
        return content
    tools = document.get("tool", {})
    backends = {name: tools.get(name) for name in _BACKENDS}
    kept = [document.get("project"), document.get("build-system"), backends]
    return json.dumps(kept, sort_keys=True, default=str).encode()
