"""``pyproject.toml``: its dependencies, extras and groups, each with its line.

The formats: https://packaging.python.org/en/latest/specifications/pyproject-toml/ and
https://packaging.python.org/en/latest/specifications/dependency-groups/.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from provision.core.limits import read_text
from provision.core.project import shipped
from provision.core.toml import parse_toml
from provision.spec.model import parse_requirement, with_slashes

Data = dict[str, Any]
FAULTS = (ValueError, TypeError, AttributeError)  # of what a file says
METADATA = ("pyproject.toml", "setup.py", "setup.cfg")
_DEPENDENCIES, _EXTRAS = "dependencies", "optional-dependencies"
# Texts and what is between them: no comment begins in it.
_BEFORE_COMMENT = r"""(?:"[^"]*"|'[^']*'|[^#"'])*?"""


@dataclass(frozen=True, slots=True)
class Line:
    """A requirement of a file, and what requires it."""

    number: int
    text: str
    part: tuple[str, str] = ("", "")  # such as ("extra", "audio") or ("group", "dev")


@dataclass(frozen=True)
class Pyproject:
    """A pyproject.toml."""

    path: Path
    place: str  # of its folder, relative to the project's
    text: str
    document: Data

    @property
    def folder(self) -> Path:
        """The folder of the project."""
        return self.path.parent

    @property
    def project(self) -> Data:
        """The table ``[project]``."""
        return table(self.document, "project")

    @property
    def uv(self) -> Data:
        """The table ``[tool.uv]``."""
        return table(self.document, "tool", "uv")

    @property
    def name(self) -> str:
        """The normalised name of the package, "" where it has none."""
        return str(canonicalize_name(str(self.project.get("name", ""))))

    @property
    def extras(self) -> dict[str, str]:
        """The names of the extras, by their normalised ones."""
        return _normalised(table(self.project, _EXTRAS))

    def says(self, key: str) -> bool:
        """Whether a key of ``[project]`` is in the file, and not left to the build."""
        return bool(self.project) and key not in self.project.get("dynamic", ())

    def requirements(self, extras: Sequence[str]) -> Iterator[Line]:
        """Yield the dependencies, and those of extras; ValueError where the file has them not."""
        self._require(_DEPENDENCIES, "")
        yield from self._expanded(self._dependencies(), ())
        for extra in extras:
            yield from self._extra(extra, ())

    def group(self, name: str, users: tuple[str, ...] = ()) -> Iterator[Line]:
        """Yield the requirements of a dependency group, with those that it includes."""
        groups = table(self.document, "dependency-groups")
        known = _normalised(groups)
        key = str(canonicalize_name(name))
        if key not in known:
            have = ", ".join(groups) or "none"
            raise ValueError(f"it has no dependency group {name!r}; it has {have}")
        if key in users:
            chain = " → ".join([*users, key])
            raise ValueError(f"dependency groups include themselves: {chain}")
        if not isinstance(groups[known[key]], list):
            raise TypeError(f"the dependency group {name} is not a list")
        for entry in groups[known[key]]:
            if isinstance(entry, dict) and [*entry] == ["include-group"]:
                yield from self.group(str(entry["include-group"]), (*users, key))
            else:
                number = self.line("dependency-groups", known[key], str(entry))
                line = Line(number, str(entry), ("group", key))
                yield from self._expanded([line], (), whole=True)

    def line(self, header: str, key: str, text: str = "") -> int:
        """Return the number of the first line with a quoted text below a key, or of the key."""
        lines = self.text.replace('\\"', '"').splitlines()
        at = _first(lines, rf"\s*\[+\s*{re.escape(header)}\s*\]", 0)
        at = _first(lines, rf"""\s*["']?{re.escape(key)}["']?\s*=""", at)
        quoted = rf"""["']{re.escape(text)}["']"""
        return 1 + _first(lines, rf"{_BEFORE_COMMENT}{quoted}", at)

    def _dependencies(self) -> list[Line]:
        texts = texts_of(self.project, _DEPENDENCIES)
        return [Line(self.line("project", _DEPENDENCIES, text), text) for text in texts]

    def _extra(self, extra: str, users: tuple[str, ...]) -> Iterator[Line]:
        self._require(_EXTRAS, f"[{extra}]")
        key = str(canonicalize_name(extra))
        if key not in self.extras:
            have = ", ".join(self.extras.values()) or "none"
            raise ValueError(f"it has no extra {extra!r}; it has {have}")
        name, header = self.extras[key], f"project.{_EXTRAS}"
        lines = []
        for text in texts_of(self.project[_EXTRAS], name):
            lines.append(Line(self.line(header, name, text), text, ("extra", key)))
        if key not in users:
            yield from self._expanded(lines, (*users, key))

    def _expanded(
        self, lines: Sequence[Line], users: tuple[str, ...], *, whole: bool = False
    ) -> Iterator[Line]:
        """Yield lines, with what the package itself stands for in place of its own name."""
        for line in lines:
            try:
                asked = parse_requirement(line.text)
            except ValueError:  # whoever adds it says so, with its place
                yield line
                continue
            if not self.name or canonicalize_name(asked.name) != self.name:
                yield line
                continue
            parts = list(self.requirements(())) if whole else []
            for extra in sorted(asked.extras):
                parts += self._extra(extra, users)
            for part in parts:
                text = with_marker(part.text, str(asked.marker or ""))
                yield replace(part, text=text)

    def _require(self, key: str, extras: str) -> None:
        if self.says(key):
            return
        local = f'write `local = ["-e {self.place}{extras}"]` into [pip] for them'
        if self.project:
            number = self.line("project", "dynamic", key)
            raise ValueError(
                f"line {number}: its {key} are dynamic, so only a build tells them; {local}"
            )
        if "poetry" in table(self.document, "tool"):
            local += ", or a file that `poetry export` writes into `files`"
        raise ValueError(f"it has no table [project] with {key}; {local}")


def read_pyproject(path: Path, root: Path) -> Pyproject:
    """Read a pyproject.toml of a project; OSError or ValueError if it cannot be read."""
    text, place = read_text(path), relative(path.parent, root)
    try:
        return Pyproject(path, place, text, parse_toml(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def relative(path: Path, root: Path) -> str:
    """Return a path as a spec has it, relative to the project's folder."""
    return Path(os.path.relpath(path, root)).as_posix()


def local_folder(text: str, root: Path) -> Path:
    """Return the folder of an entry such as ``-e .[dev]``."""
    path = with_slashes(text).removeprefix("-e ").partition("[")[0].strip()
    return (root / path).resolve()


def own_package(text: str, root: Path) -> Path | None:
    """Return the folder of an own package, or None where it is not here: in an image or a bundle.

    There the project's folder is the toolkit's.
    """
    folder = local_folder(text, root)
    has = any((folder / name).is_file() for name in METADATA)
    return folder if has and folder != shipped().root.resolve() else None


def table(data: Data, *keys: str) -> Data:
    """Return a table of a table, empty where there is none; TypeError if it is no table."""
    for key in keys:
        data = data.get(key, {})
        if not isinstance(data, dict):
            raise TypeError(f"{key} is not a table (is {data!r})")
    return data


def with_marker(text: str, marker: str) -> str:
    """Return a requirement that holds only where a marker does as well."""
    if not marker:
        return text
    asked = parse_requirement(text)
    both = f"({asked.marker}) and ({marker})" if asked.marker else marker
    asked.marker = Marker(both)
    return str(asked)


def texts_of(data: Data, key: str) -> list[str]:
    """Return the requirements of a list, none where there is none; TypeError if it is another."""
    texts = data.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
        raise TypeError(f"{key} is not a list of requirements (is {texts!r})")
    return texts


def _normalised(data: Data) -> dict[str, str]:
    return {str(canonicalize_name(name)): name for name in data}


def _first(lines: Sequence[str], pattern: str, start: int) -> int:
    """Return the place of the first line from a start on that fits, or the start."""
    fitting = re.compile(pattern)
    return next((n for n in range(start, len(lines)) if fitting.match(lines[n])), start)
