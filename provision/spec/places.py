"""Where each requirement of a target is: the file, and the line of it.

A spec inherits from others and refers to files; what a resolver gets is the sum of them all.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from packaging.utils import canonicalize_name

from provision.core.limits import read_text
from provision.core.project import shipped
from provision.spec.extends import Read, SpecFile, read_spec_file, spec_chain
from provision.spec.model import Target

Key = Literal["requirements", "constraints", "overrides", "local"]  # of [pip]
# The target's own spec, one that it extends, or a file that one of them refers to.
Source = Literal["spec", "inherited", "file"]


class Line(NamedTuple):
    """A requirement, a constraint, an override or an own package, and the line that says it."""

    key: Key
    text: str
    place: str  # such as `requirements.txt, line 8`
    source: Source

    @property
    def name(self) -> str:
        """The normalised name of its distribution; "" of a folder."""
        match = re.match(r"[A-Za-z0-9][\w.-]*", self.text)
        if not match or self.key == "local":
            return ""
        return canonicalize_name(match[0])


class Places(NamedTuple):
    """Every line of a target that holds; what another one replaces or drops is not among them."""

    spec: str  # such as `envs/cpu-linux.toml`
    lines: tuple[Line, ...] = ()
    root: Path = Path()  # the project's folder
    own: Mapping[str, Any] = MappingProxyType({})  # [pip] of the spec itself
    # What targets of the project extend; the spec itself where it is alone.
    common: str = ""
    files: tuple[SpecFile, ...] = ()  # the spec, and what it extends

    def line(self, text: str) -> Line:
        """Return the line with a text, or else that of its distribution: of the spec if none has."""
        for line in self.lines:
            if line.text == text:
                return line
        nowhere = Line("requirements", text, self.spec, "spec")
        return next(iter(self.about(nowhere.name)), nowhere)

    def of(self, text: str) -> str:
        """Return where a text is, or else where its distribution is: the spec if nowhere."""
        return self.line(text).place

    def about(self, name: str) -> list[Line]:
        """Return the lines of one distribution, by its normalised name."""
        return [line for line in self.lines if name and line.name == name]

    def key(self, key: str, entry: str = "", table: str = "pip") -> str:
        """Return where the specs say a key of a table, or an entry of it; "" if nowhere."""
        for file in self.files:
            data = file.data
            for part in filter(None, table.split(".")):
                data = data.get(part, {})
            if key not in data:
                continue
            if not entry:
                return _place(file, self.root, key, key)
            for value in data[key]:
                # Of a list, or of a table that names a distribution.
                text = value["name"] if isinstance(value, dict) else value
                if entry in {text, canonicalize_name(text)}:
                    return _place(file, self.root, key, text)
        return ""


def read_places(target: Target, root: Path, read: Read = read_spec_file) -> Places:
    """Read where the lines of a target are; ``root`` is the folder of its project."""
    path = root / "envs" / f"{target.name}.toml"
    chain = spec_chain(path, read) if path.is_file() else []
    lines = []
    for key, text in _entries(target):
        line = _in_specs(chain[:1], root, key, text, "spec")
        inputs = target.inputs
        in_files = inputs.limits if key == "constraints" else inputs.places
        if line is None and text in in_files:  # though a base says the same
            line = Line(key, text, in_files[text], "file")
        line = line or _in_specs(chain[1:], root, key, text, "inherited")
        if line:
            lines.append(line)
    return Places(
        _shown(path, root),
        tuple(lines),
        root,
        chain[0].data.get("pip", {}) if chain else {},
        _common(chain[1:], root),
        tuple(chain),
    )


def _common(bases: Sequence[SpecFile], root: Path) -> str:
    """Return the first base that is below the project's folder of specs: only others extend it."""
    for base in bases:
        if root / "envs" in base.path.parent.parents:
            return _shown(base.path, root)
    return ""


def _entries(target: Target) -> Iterator[tuple[Key, str]]:
    for text in target.pip.requirements:
        yield "requirements", text
    for text in target.pip.constraints:
        yield "constraints", text
    for override in target.pip.overrides:
        yield "overrides", override.requirement
    for text in target.pip.local:
        yield "local", text


def _in_specs(
    files: Sequence[SpecFile], root: Path, key: Key, text: str, source: Source
) -> Line | None:
    for file in files:
        texts = file.data.get("pip", {}).get(key, [])
        if key == "overrides":
            texts = [override["requirement"] for override in texts]
        if text in texts:
            return Line(key, text, _place(file, root, key, text), source)
    return None


def _place(file: SpecFile, root: Path, key: str, text: str) -> str:
    place = _shown(file.path, root)
    if number := _line_of(read_text(file.path), key, text):
        place += f", line {number}"
    return place


def _line_of(document: str, key: str, entry: str) -> int:
    """Return the number of the line with an entry, or a key; 0 where it is written otherwise."""
    name = re.escape(key)
    begins = re.compile(rf"\s*(\[\[\s*pip\s*\.\s*{name}\s*\]\]|(\w+\.)*{name}\s*=)")
    # In quotes in a list, as it is before a value.
    written = json.dumps(entry, ensure_ascii=False), f"'{entry}'", f"{entry} ="
    is_inside = False
    for number, line in enumerate(document.splitlines(), 1):
        is_inside = is_inside or bool(begins.match(line))
        is_comment = line.lstrip().startswith("#")
        if is_inside and not is_comment and any(form in line for form in written):
            return number
    return 0


def _shown(path: Path, root: Path) -> str:
    """Return how a person calls a file: those that come with Provision are not in the project."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    if path.is_relative_to(shipped().root):
        return f"the shipped {path.relative_to(shipped().root).as_posix()}"
    return str(path)
