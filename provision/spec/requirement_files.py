"""Requirement files of pip: what `[pip] files` of a spec adds to its requirements.

The format: https://pip.pypa.io/en/stable/reference/requirements-file-format/. Options that choose
an index are left out and named: the spec assigns each distribution to its index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from provision.core.errors import SpecError
from provision.core.text import plural
from provision.spec.model import index_requirement, source_requirement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from provision.spec.model import Target

_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(
    r"-(?:-(?=requirement\b|constraint\b|editable\b))?([rce])(?:equirement|onstraint|ditable)?"
    r"[\s=]*(.*)"
)
_PER_REQUIREMENT = re.compile(r"\s+--(?:hash|config-settings?|global-option)\b.*$")


@dataclass
class RequirementFiles:
    """The contents of requirement files and of those that they include.

    Attributes:
        requirements: PEP 508 requirements, direct references included.
        constraints: Limits on versions of what is required.
        local: Folders of own packages, as in ``[pip] local`` of a spec.
        ignored: Options that have no effect here, each with its place.
        read: Every file that was read.
        faults: What is wrong in them, each with its place.
    """

    root: Path
    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add(self, path: Path, *, constrains: bool = False) -> None:
        """Read a file and what it includes, each file once."""
        if path in self.read:
            return
        self.read.append(path)
        if not path.is_relative_to(self.root):
            self.faults.append(f"{path} is outside the project {self.root}")
            return
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.faults.append(f"{path}: {error}")
            return
        for number, line in _lines(text):
            try:
                self._add_line(line, path, constrains=constrains)
            except ValueError as error:
                self.faults.append(f"{path}, line {number}: {error}")

    def _add_line(self, line: str, path: Path, *, constrains: bool) -> None:
        if "${" in line:
            raise ValueError(f"{line!r} depends on a variable of the caller")
        option, text = _OPTION.fullmatch(line), _PER_REQUIREMENT.sub("", line)
        kind, value = option.groups() if option else ("", text)
        if kind in {"r", "c"}:
            if "://" in value:
                raise ValueError(f"{line!r} is on a server; keep a copy of the file in the project")
            self.add((path.parent / value).resolve(), constrains=constrains or kind == "c")
        elif line.startswith("-") and not kind:
            self.ignored.append(f"{path}: {line}")
        elif constrains:
            self.constraints.append(index_requirement(text))
        elif re.match(r"[a-z+]+://", value):
            self.requirements.append(source_requirement(f"{_name_in(value)} @ {value}"))
        elif (
            kind or value.startswith((".", "/")) or ("/" in value and (self.root / value).is_dir())
        ):
            self.local.append(f"-e {value}" if kind else value)
        else:
            self.requirements.append(source_requirement(value))


def read_requirement_files(root: Path, names: Sequence[str]) -> RequirementFiles:
    """Read requirement files, with those that they include.

    Args:
        root: The project's folder; local packages in the files are relative to it, as for pip.
        names: Paths of the files, relative to ``root``.

    Raises:
        SpecError: All faults of all files at once, each with its place.
    """
    found = RequirementFiles(root.resolve())
    for name in names:
        found.add((found.root / name).resolve())
    if found.faults:
        raise SpecError(
            f"the requirement files have {plural(len(found.faults), 'fault')}",
            evidence="\n".join(found.faults),
            remedy="correct each of them",
        )
    return found


def with_files(target: Target, root: Path) -> Target:
    """Return a target whose requirements include those of its requirement files.

    Raises:
        SpecError: A file has faults.
    """
    found = read_requirement_files(root, target.pip.files)
    pip = target.pip.model_copy(update={
        name: tuple(dict.fromkeys([*getattr(target.pip, name), *getattr(found, name)]))
        for name in ("requirements", "constraints", "local")
    })  # fmt: skip
    return target.model_copy(update={"pip": pip})


def _lines(text: str) -> Iterator[tuple[int, str]]:
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
    stem = leaf.removesuffix(".git") if url.startswith("git+") else leaf.partition("-")[0]
    return parse_qs(parts.fragment).get("egg", [stem])[0]
