"""Requirement files of pip: what a spec's `[pip] files` adds to its requirements.

The format: https://pip.pypa.io/en/stable/reference/requirements-file-format/. Options that choose
an index are left out and named: the spec assigns each distribution to its index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from provision.core.errors import SpecError
from provision.core.text import plural
from provision.spec.model import index_requirement, source_requirement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from provision.spec.model import Target

_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(r"(-[rce]|--(?:requirement|constraint|editable)\b)\s*=?\s*(.*)")
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
    """

    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    read: list[Path] = field(default_factory=list)
    _faults: list[str] = field(default_factory=list)

    def add(self, path: Path, root: Path, *, constrains: bool = False) -> None:
        """Read a file and what it includes; each file once. Faults are collected."""
        if path in self.read:
            return
        self.read.append(path)
        if not path.is_relative_to(root):
            self._faults.append(f"{path} is outside the project {root}")
            return
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self._faults.append(f"{path}: cannot be read: {error}")
            return
        for number, line in _lines(text):
            try:
                self._line(line, path, root, constrains=constrains)
            except ValueError as error:
                self._faults.append(f"{path}, line {number}: {error}")

    def _line(self, line: str, path: Path, root: Path, *, constrains: bool) -> None:
        if "${" in line:
            raise ValueError(f"{line!r} depends on a variable of the caller")
        option = _OPTION.fullmatch(line)
        kind = option[1].lstrip("-")[0] if option else ""
        if option and kind in "rc":
            if "://" in option[2]:
                raise ValueError(f"{line!r} is on a server; keep a copy of the file in the project")
            file = (path.parent / option[2]).resolve()
            self.add(file, root, constrains=constrains or kind == "c")
        elif line.startswith("-") and not option:
            self.ignored.append(f"{path}: {line}")
        elif constrains:
            self.constraints.append(index_requirement(_PER_REQUIREMENT.sub("", line)))
        else:
            self._requirement(option[2] if option else line, root, editable=bool(option))

    def _requirement(self, text: str, root: Path, *, editable: bool) -> None:
        text = _PER_REQUIREMENT.sub("", text)
        if re.match(r"(git\+)?\w+://", text):
            self.requirements.append(source_requirement(_named(text)))
        elif editable or text.startswith((".", "/")) or (root / text).is_dir():
            self.local.append(f"-e {text}" if editable else text)
        else:
            self.requirements.append(source_requirement(text))


def read_requirement_files(root: Path, names: Sequence[str]) -> RequirementFiles:
    """Read requirement files, with those that they include.

    Args:
        root: The project's folder; local packages in the files are relative to it, as for pip.
        names: Paths of the files, relative to ``root``.

    Raises:
        SpecError: All faults of all files at once, each with its place.
    """
    found, root = RequirementFiles(), root.resolve()
    for name in names:
        found.add((root / name).resolve(), root)
    if faults := found._faults:  # noqa: SLF001 - of this module
        raise SpecError(
            f"the requirement files have {plural(len(faults), 'fault')}",
            evidence="\n".join(faults),
            remedy="correct each of them",
        )
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines of a requirement file, each with the number of its last line."""
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        begun += _COMMENT.sub("", line) if not begun else line.lstrip()
        if begun.endswith("\\"):
            begun = f"{begun[:-1].rstrip()} "
            continue
        if begun := _COMMENT.sub("", begun).strip():
            yield number, begun
        begun = ""


def _named(url: str) -> str:
    """Return a bare URL as a requirement, with the name in its fragment or its last part."""
    parts = urlsplit(url)
    egg = parse_qs(parts.fragment).pop("egg", [""])[0]
    leaf = unquote(parts.path).rstrip("/").rpartition("/")[2].partition("@")[0]
    stem = leaf.removesuffix(".git") if url.startswith("git+") else leaf.partition("-")[0]
    try:
        return f"{Requirement(egg or stem)} @ {url}"
    except InvalidRequirement as error:
        raise ValueError(f"{url!r} names no distribution; write `NAME @ URL`") from error


def with_files(target: Target, root: Path) -> Target:
    """Return a target whose requirements include those of its requirement files.

    Raises:
        SpecError: A file has faults.
    """
    if not target.pip.files:
        return target
    found = read_requirement_files(root, target.pip.files)
    pip = target.pip.model_copy(update={
        name: tuple(dict.fromkeys([*getattr(target.pip, name), *getattr(found, name)]))
        for name in ("requirements", "constraints", "local")
    })  # fmt: skip
    return target.model_copy(update={"pip": pip})
