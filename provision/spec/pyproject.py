"""``pyproject.toml``: its dependencies, extras and groups, each with its line.

The formats: https://packaging.python.org/en/latest/specifications/pyproject-toml/ and
https://packaging.python.org/en/latest/specifications/dependency-groups/.
"""

import os
import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.core.limits import EXPANDED, read_text, require_inside
from provision.core.project import shipped
from provision.core.toml import parse_toml
from provision.spec.model import (
    REMEMBERED,
    parse_requirement,
    requirement_name,
    with_slashes,
)

Data = dict[str, Any]
FAULTS = (ValueError, TypeError, AttributeError)  # of what a file says
METADATA = ("pyproject.toml", "setup.py", "setup.cfg")
_DEPENDENCIES, _EXTRAS = "dependencies", "optional-dependencies"
# The texts of a line, and the comment that ends it.
_TEXTS = re.compile(r"""\"((?:[^"\\]|\\.)*)"|'([^']*)'|#.*""")
_HEADER = re.compile(r"\s*+\[{1,2}([^\[\]]*+)\]")
_KEY = re.compile(r"""\s*+["']?([^"'=\s]++)["']?\s*+=""")
_SEARCHED = 1_000  # characters of a line in which texts are looked for


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

    @cached_property
    def name(self) -> str:
        """The normalised name of the package, "" where it has none."""
        return canonicalize_name(str(self.project.get("name", "")))

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
        yield from self._expanded(self._dependencies())
        for extra in extras:
            yield from self._expanded(self._extra(extra), canonicalize_name(extra))

    def group(self, name: str) -> Iterator[Line]:
        """Yield the requirements of a dependency group, with those that it includes."""
        yield from self._expanded(self._group(name, (), set()), whole=True)

    def _group(
        self, name: str, users: tuple[str, ...], done: set[str]
    ) -> Iterator[Line]:
        groups = table(self.document, "dependency-groups")
        names = _normalised(groups)
        key = canonicalize_name(name)
        if key not in names:
            have = ", ".join(groups) or "none"
            raise ValueError(f"it has no dependency group {name!r}; it has {have}")
        if key in users:
            chain = " → ".join([*users, key])
            raise ValueError(f"dependency groups include themselves: {chain}")
        if key in done:
            return
        done.add(key)
        entries = groups[names[key]]
        if not isinstance(entries, list):
            raise TypeError(f"the dependency group {name} is not a list")
        for entry in entries:
            if isinstance(entry, dict) and [*entry] == ["include-group"]:
                yield from self._group(str(entry["include-group"]), (*users, key), done)
            else:
                number = self.line("dependency-groups", names[key], str(entry))
                yield Line(number, str(entry), ("group", key))

    def line(self, header: str, key: str, text: str = "") -> int:
        """Return the number of the first line with a quoted text below a key, or of the key."""
        line = 1
        for place in (("header", header), ("key", key), ("text", text)):
            numbers = self._lines_of[place]
            after = bisect_left(numbers, line)
            if after < len(numbers):
                line = numbers[after]
        return line

    @cached_property
    def _lines_of(self) -> defaultdict[tuple[str, str], list[int]]:
        """The numbers of the lines with a header, a key or a text."""
        lines = defaultdict[tuple[str, str], list[int]](list)
        for number, whole in enumerate(self.text.split("\n"), 1):  # as TOML has them
            line = whole[:_SEARCHED]
            if header := _HEADER.match(line):
                lines["header", header[1].strip()].append(number)
            if key := _KEY.match(line):
                lines["key", key[1]].append(number)
            for escaped, literal in _TEXTS.findall(line):
                text = escaped.replace('\\"', '"') or literal
                if text:  # no comment
                    lines["text", text].append(number)
        return lines

    def _dependencies(self) -> list[Line]:
        lines = []
        for text in texts_of(self.project, _DEPENDENCIES):
            number = self.line("project", _DEPENDENCIES, text)
            lines.append(Line(number, text))
        return lines

    def _extra(self, extra: str) -> list[Line]:
        self._require(_EXTRAS, f"[{extra}]")
        key = canonicalize_name(extra)
        if key not in self.extras:
            have = ", ".join(self.extras.values()) or "none"
            raise ValueError(f"it has no extra {extra!r}; it has {have}")
        name = self.extras[key]
        lines = []
        for text in texts_of(self.project[_EXTRAS], name):
            number = self.line(f"project.{_EXTRAS}", name, text)
            lines.append(Line(number, text, ("extra", key)))
        return lines

    def _expanded(
        self, lines: Iterable[Line], *users: str, whole: bool = False
    ) -> Iterator[Line]:
        """Yield lines once, with what the package itself stands for in place of its own name."""
        waiting = deque((line, users) for line in lines)
        seen = set()
        uses = 0
        while waiting:
            line, users = waiting.popleft()
            if line in seen:
                continue
            seen.add(line)
            itself = self._itself(line.text)
            if itself is None:
                yield line
                continue
            uses += 1
            if uses > EXPANDED:
                raise ValueError(f"its extras use others more than {EXPANDED} times")
            parts = self._parts(itself, users, whole=whole)
            for part, its_users in reversed(parts):
                text = with_marker(part.text, str(itself.marker or ""))
                waiting.appendleft((replace(part, text=text), its_users))

    def _parts(
        self, itself: Requirement, users: tuple[str, ...], *, whole: bool
    ) -> list[tuple[Line, tuple[str, ...]]]:
        """Return the lines that a requirement of the package itself stands for, with their users."""
        parts = []
        if whole:
            parts += [(line, users) for line in self._dependencies()]
        for extra in sorted(itself.extras):
            key = canonicalize_name(extra)
            if key not in users:
                parts += [(line, (*users, key)) for line in self._extra(extra)]
        return parts

    def _itself(self, text: str) -> Requirement | None:
        """Return a requirement of the package itself, such as its extras; None for any other."""
        try:
            is_itself = self.name and requirement_name(text) == self.name
        except ValueError:  # whoever adds it says so, with its place
            return None
        return _shared_requirement(text) if is_itself else None

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
    # An own package may be in its own repository.
    require_inside(path, root if path.is_relative_to(root) else path.parent)
    text = read_text(path)
    try:
        return Pyproject(path, relative(path.parent, root), text, parse_toml(text))
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
    if folder == shipped().root.resolve() or not has_metadata(folder):
        return None
    return folder


def has_metadata(folder: Path) -> bool:
    """Whether a folder has a file that says what a package requires."""
    return any((folder / name).is_file() for name in METADATA)


def table(data: Data, *keys: str) -> Data:
    """Return a table of a table, empty where there is none; TypeError if it is no table."""
    for key in keys:
        data = data.get(key, {})
        if not isinstance(data, dict):
            raise TypeError(f"{key} is not a table (is {data!r})")
    return data


def names_of_extras(text: str) -> list[str]:
    """Return the extras that are named between brackets."""
    names = map(str.strip, text.split(","))
    return list(filter(None, names))


@lru_cache(REMEMBERED)
def _shared_requirement(text: str) -> Requirement:
    """Parse a requirement once, however often it is read; nobody may change it."""
    return parse_requirement(text)


@lru_cache(REMEMBERED)
def with_marker(text: str, marker: str) -> str:
    """Return a requirement that holds only where a marker does as well."""
    if not marker:
        return text
    requirement = parse_requirement(text)
    if requirement.marker:
        marker = f"({requirement.marker}) and ({marker})"
    requirement.marker = Marker(marker)
    return str(requirement)


def texts_of(data: Data, key: str) -> list[str]:
    """Return the requirements of a list, none where there is none; TypeError if it is another."""
    texts = data.get(key, [])
    if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
        return texts
    raise TypeError(f"{key} is not a list of requirements (is {texts!r})")


def _normalised(data: Data) -> dict[str, str]:
    return {canonicalize_name(name): name for name in data}
