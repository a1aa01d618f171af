"""Requirement files of pip: what `[pip] files` of a spec adds to its requirements.

Options that choose an index are left out and named: the spec assigns each distribution to its own.
The format: https://pip.pypa.io/en/stable/reference/requirements-file-format/.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.core.errors import SpecError
from provision.core.limits import read_text
from provision.core.text import plural
from provision.spec.model import Target, index_requirement, source_requirement

_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(
    r"-(?:-(?=requirement\b|constraint\b|editable\b))?([rce])(?:equirement|onstraint|ditable)?"
    r"[\s=]*(.*)"
)
_PER_REQUIREMENT = re.compile(r"\s+--(?:hash|config-settings?|global-option)\b.*$")


@dataclass
class RequirementFiles:
    """The contents of requirement files and of those that they include."""

    root: Path
    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Read a file and what it includes, each file once."""
        try:
            self._read(path, constrains=False)
        except ValueError as error:
            self.faults.append(str(error))

    def _read(self, path: Path, *, constrains: bool) -> None:
        """Read a file; ValueError, which the line that includes it reports, if it cannot be."""
        if path in self.read:
            return
        self.read.append(path)
        if not path.is_relative_to(self.root):
            raise ValueError(f"{path} is outside the project {self.root}")
        try:
            text = read_text(path)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"{path}: {reason}") from error
        for number, line in logical_lines(text):
            before = len(self.requirements)
            try:
                self._add_line(line, path, number, constrains=constrains)
            except ValueError as error:
                self.faults.append(f"{path}, line {number}: {error}")
            # Those of included files have their places already.
            for requirement in self.requirements[before:]:
                place = path.relative_to(self.root).as_posix()
                self.places.setdefault(requirement, f"{place}, line {number}")

    def _add_line(
        self, line: str, path: Path, number: int, *, constrains: bool
    ) -> None:
        if "${" in line:
            raise ValueError(f"{line!r} depends on a variable of the caller")
        option, text = _OPTION.fullmatch(line), _PER_REQUIREMENT.sub("", line)
        kind, value = option.groups() if option else ("", text)
        if kind in {"r", "c"}:
            if "://" in value:
                raise ValueError(
                    f"{line!r} is on a server; keep a copy of the file in the project"
                )
            included = (path.parent / value).resolve()
            self._read(included, constrains=constrains or kind == "c")
        elif constrains and not line.startswith("-"):
            self.constraints.append(index_requirement(text))
        elif line.startswith("-") and not kind:
            self.ignored.append(f"{path}, line {number}: {line}")
        else:
            self._add_requirement(kind, value)

    def _add_requirement(self, kind: str, value: str) -> None:
        if re.match(r"[a-z+]+://", value):
            self.requirements.append(source_requirement(f"{_name_in(value)} @ {value}"))
        elif kind:
            self.local.append(f"-e {value}")
        elif value[0] in "./" or ("/" in value and (self.root / value).is_dir()):
            self.local.append(value)
        else:
            self.requirements.append(source_requirement(value))


def read_requirement_files(root: Path, names: Sequence[str]) -> RequirementFiles:
    """Read requirement files, with those that they include."""
    files = RequirementFiles(root.resolve())
    for name in names:
        files.add((files.root / name).resolve())
    if files.faults:
        raise SpecError(
            f"the requirement files have {plural(len(files.faults), 'fault')}",
            evidence="\n".join(files.faults),
            remedy="correct each of them",
        )
    return files


def with_files(target: Target, root: Path) -> Target:
    """Return a target with the requirements of its files, but those that it pins or drops."""
    if not target.pip.files:
        return target
    files = read_requirement_files(root, target.pip.files)
    # The files are for every target; what a target pins itself fits its accelerator.
    decided = set(target.pip.drop)
    for text in target.pip.requirements:
        if _is_pinned(text):
            decided.add(requirement_name(text))

    def extended(own: Sequence[str], more: list[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*own, *more]))

    def undecided(texts: list[str]) -> list[str]:
        return [text for text in texts if requirement_name(text) not in decided]

    return target.with_pip(
        requirements=extended(target.pip.requirements, undecided(files.requirements)),
        constraints=extended(target.pip.constraints, undecided(files.constraints)),
        local=extended(target.pip.local, files.local),
    )


def requirement_name(text: str) -> str:
    """Return the normalised name of a requirement."""
    return str(canonicalize_name(Requirement(text).name))


def _is_pinned(text: str) -> bool:
    requirement = Requirement(text)
    for part in requirement.specifier:
        if part.operator == "==" and not part.version.endswith("*"):
            return True
    return bool(requirement.url)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines of a requirement file, each with the number of its last line."""
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        begun += _COMMENT.sub("", line).strip()
        if begun.endswith("\\"):
            begun = f"{begun[:-1].rstrip()} "
        elif begun:
            yield number, begun
            begun = ""


def _name_in(url: str) -> str:
    """Return the distribution that a bare URL names, in its fragment or in its last part."""
    parts = urlsplit(url)
    leaf = unquote(parts.path).rstrip("/").rpartition("/")[2].partition("@")[0]
    stem = (
        leaf.removesuffix(".git") if url.startswith("git+") else leaf.partition("-")[0]
    )
    return parse_qs(parts.fragment).get("egg", [stem])[0]
