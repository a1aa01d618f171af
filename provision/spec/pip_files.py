"""Requirement files of pip, and the ``pip`` part of conda's ``environment.yml``, which has their lines.

The format: https://pip.pypa.io/en/stable/reference/requirements-file-format/.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.utils import parse_sdist_filename

from provision.core.limits import INCLUDED, LINE, NESTED, read_text
from provision.core.wheel_name import parse_wheel_name
from provision.spec.collected import OTHER_INDEX, Collected
from provision.spec.conda_environment import CONDA, conda_lines
from provision.spec.model import (
    ARCHIVE,
    index_requirement,
    source_requirement,
    with_slashes,
)
from provision.spec.pyproject import has_metadata, relative
from provision.spec.uv_sources import ARCHIVES

_BARE_ARCHIVE = re.compile(r"[^@;\s]+\.(?:whl|zip|tar\.gz|tgz)\s*(?:;|$)")
COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(
    r"-(?:-(?=requirement\b|constraint\b|editable\b))?([rce])(?:equirement|onstraint|ditable)?"
    r"[\s=]*(.*)"
)
_PER_REQUIREMENT = re.compile(
    r"(?<!\s)\s+--(?:hash|config-settings?|global-option)\b.*$"
)
# After a URL or a path, which may have semicolons itself.
_MARKER = re.compile(r"(?<!\s)\s+;\s*|;\s+")


@dataclass
class PipFiles(Collected):
    """What files of pip's format say, with those that they include."""

    # Of paths to packages: as for pip, the folder that it is run in, then that of the file.
    _runs_in: Path | None = None

    def _read(self, path: Path, *, constrains: bool) -> None:
        """Read a file; ValueError, which the line that includes it reports, if it cannot be."""
        with self._reading(path, "-c" if constrains else "-r") as new:
            lines = list(logical_lines(read_text(path))) if new else []
        self._including.append(path)
        for number, line in lines:
            with self._at(path, number):
                self._add_line(line, path, number, constrains=constrains)
        self._including.pop()

    def _include(self, path: Path, *, constrains: bool) -> None:
        if path in self._including:
            circle = [*self._including[self._including.index(path) :], path]
            names = " → ".join(relative(file, self.root) for file in circle)
            raise ValueError(f"it includes itself: {names}")
        if len(self._including) >= NESTED or len(self.said) > INCLUDED:
            raise ValueError(
                f"more than {NESTED} files include each other, or {INCLUDED} are included"
            )
        self._read(path, constrains=constrains)

    def _add_line(
        self, line: str, path: Path, number: int, *, constrains: bool = False
    ) -> None:
        if "${" in line:
            raise ValueError(f"{line!r} depends on a variable of the caller")
        text = _PER_REQUIREMENT.sub("", line)
        kind, value = "", text
        if option := _OPTION.fullmatch(line):
            kind, value = option.groups()
        value = with_slashes(value)
        if kind in {"r", "c"}:
            if "://" in value:
                raise ValueError(
                    f"{line!r} is on a server; keep a copy of the file in the project"
                )
            self.said[path].append(line)
            included = Path(os.path.realpath(path.parent / value))
            self._include(included, constrains=constrains or kind == "c")
        elif constrains and kind:
            raise ValueError(f"{line!r} constrains no version")
        elif constrains and not line.startswith("-"):
            self.constraints.append(index_requirement(text))
        elif line.startswith("-") and not kind:
            self.ignored.append(f"{path}, line {number}: {line}{OTHER_INDEX}")
        else:
            self._add_requirement(kind, value, path.parent)

    def _add_requirement(self, kind: str, value: str, folder: Path) -> None:
        if not value:
            raise ValueError("-e names no folder")
        marker = ""
        is_path = self._is_path(value)
        if "://" in value or is_path or kind:
            value, *rest = _MARKER.split(value, maxsplit=1)
            marker = f" ; {rest[0]}" if rest else ""
        if re.match(r"[a-z+]+://", value):
            text = f"{_name_in(value)} @ {value}"
            self.requirements.append(source_requirement(text + marker))
        elif not (kind or is_path):
            self.requirements.append(source_requirement(value + marker))
        elif value.endswith(ARCHIVES):
            path = self._own_folder(value, folder)
            place = relative(self.root / path, self.root)
            text = f"{_name_of(path)} @ {ARCHIVE}{place}"
            self.requirements.append(source_requirement(text + marker))
        elif not marker or self._applies(marker.removeprefix(" ; ")):
            place = self._own_folder(value, folder)
            self.local.append(f"-e {place}" if kind else place)

    def _is_path(self, value: str) -> bool:
        if value[0] in "./":
            return True
        if "/" in value and ((self._runs_in or self.root) / value).is_dir():
            return True
        # Such a name is valid of a distribution, too: pip takes the file.
        return _BARE_ARCHIVE.match(value) is not None

    def _own_folder(self, text: str, beside: Path) -> str:
        """Return the folder of a package, relative to the project's."""
        name, bracket, extras = text.partition("[")
        here = self._runs_in or self.root
        for base in (here, beside):
            path = base / name
            if path.is_file() or has_metadata(path):
                break
        else:
            base = here
        if base != self.root:
            name = relative((base / name).resolve(), self.root)
        return f"{name}{bracket}{extras}"

    def _read_conda(self, path: Path) -> None:
        with self._reading(path, "conda") as new:
            lines = list(conda_lines(path)) if new else []
        unused = []
        self._runs_in = path.parent  # where conda runs pip
        for line in lines:
            if line.part != CONDA:
                with self._at(path, line.number):
                    self._add_line(line.text, path, line.number)
            elif line.text != "pip":
                unused.append(line.text)
        self._runs_in = None
        if unused:
            names = ", ".join(unused)
            beyond = "packages of conda are not installed beyond what the spec has"
            self.ignored.append(f"{path}: {beyond}: {names}")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines of a requirement file, each with the number of its last line."""
    begun = []
    length = number = 0
    for number, line in enumerate(text.splitlines(), 1):
        part = COMMENT.sub("", line).strip()
        length += len(part)
        if length > LINE:
            raise ValueError(f"line {number}: it has more than {LINE} characters")
        goes_on = part.endswith("\\")
        begun.append(part.removesuffix("\\").rstrip())
        if not goes_on:
            if whole := " ".join(begun).strip():
                yield number, whole
            begun, length = [], 0
    if whole := " ".join(begun).strip():  # the last line goes on, and there is none
        yield number, whole


def _name_of(path: str) -> str:
    """Return the distribution of a wheel or an sdist, which its file's name says."""
    filename = path.rpartition("/")[2]
    if filename.endswith(".whl"):
        return parse_wheel_name(filename).name
    return str(parse_sdist_filename(filename)[0])


def _name_in(url: str) -> str:
    """Return the distribution that a bare URL names, in its fragment or in its last part."""
    parts = urlsplit(url)
    last = unquote(parts.path).rstrip("/").rpartition("/")[2]
    last = last.partition("@")[0]
    name = last.partition("-")[0]
    if url.startswith("git+"):
        name = last.removesuffix(".git")
    return parse_qs(parts.fragment).get("egg", [name])[0]
