"""What `add` and `remove` do with a requirement: to which file it goes, or why it is refused.

A requirement is in one place: the file that has it is edited, else the first one of
``[pip] files`` that can be, and the spec only where it refers to none, or is to differ.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tomlkit
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement

from provision.commands.edit_journal import rewrite
from provision.commands.edit_lines import Edit, appended, distribution, with_line
from provision.commands.edit_spec import (
    add_to,
    pip_table,
    remove_from,
    require_required,
    take,
    take_where,
    text_of,
)
from provision.core.errors import UsageError
from provision.spec.extends import SpecFile, spec_chain
from provision.spec.places import Line, read_places
from provision.spec.pyproject import METADATA, local_folder, read_pyproject, relative
from provision.spec.reader import load_spec


@dataclass(frozen=True, slots=True)
class Words:
    """What a person adds or removes."""

    requirements: Sequence[str] = ()  # of `remove`, names
    folders: Sequence[Path] = ()  # packages of one's own
    files: Sequence[Path] = ()  # requirement files
    index: str | None = None  # the catalog that the requirements come from
    only_here: bool = False  # for this target alone
    editable: bool = False  # of the folders


def add(path: Path, words: Words) -> None:
    """Add what is asked for to a spec, or to the files that it refers to."""
    root = path.absolute().parents[1]
    # An index is the spec's: other targets take theirs from somewhere else.
    here = words.only_here or words.index
    for requirement in words.requirements:
        _take_back(path, distribution(requirement))
        if here or not _add_to_file(path, root, requirement):
            add_to(path, [requirement], words.index)
    for folder in words.folders:
        text = _entry(folder, root, METADATA)
        if words.editable:
            text = f"-e {text}"
        _add_entry(path, root, "local", text, words)
    for file in words.files:
        _add_entry(path, root, "files", _entry(file, root, ()), words)


def remove(path: Path, words: Words) -> None:
    """Remove what is named from where it is; UsageError if the spec does not have it."""
    root = path.absolute().parents[1]
    for name in map(distribution, words.requirements):
        if words.only_here:
            _leave_out(path, root, name)
        else:
            _remove_everywhere(path, root, name)
    for folder in words.folders:
        _remove_entry(path, root, "local", folder)
    for file in words.files:
        _remove_entry(path, root, "files", file)


def require_removable(paths: Collection[Path], words: Words) -> None:
    """Raise UsageError before anything is edited, if a spec does not require what is named."""
    for path in paths:
        require_required(path, words.requirements)
        pip = load_spec(path).pip
        for folder in words.folders:
            _require_entry(path, "local", pip.local, folder)
        for file in words.files:
            _require_entry(path, "files", pip.files, file)


def _require_entry(path: Path, key: str, listed: Sequence[str], gone: Path) -> None:
    root = path.absolute().parents[1]
    if not any(_is_entry(root, gone, text) for text in listed):
        raise UsageError(
            f"{path} has no `{key}` {gone}",
            remedy=f"see `{key}` of [pip] in it",
        )


def _take_back(path: Path, name: str) -> None:
    """Let a target have again what its own spec excludes; UsageError where another one does."""
    if name not in load_spec(path).pip.exclude:
        return
    with pip_table(path) as pip:
        take(pip, "exclude", name)
    if name in load_spec(path).pip.exclude:
        raise UsageError(
            f"what {path} extends excludes {name}",
            remedy=f"take {name} out of `exclude` there",
        )


def _leave_out(path: Path, root: Path, name: str) -> None:
    """Let one target do without a distribution, though a file requires it."""
    if "file" not in [line.source for line in _lines(path, root, name)]:
        remove_from(path, [name])
        return
    with pip_table(path) as pip:
        take(pip, "requirements", name)
        pip.setdefault("exclude", []).append(name)


def _remove_everywhere(path: Path, root: Path, name: str) -> None:
    """Remove a distribution from files, from the spec, and from what it extends in the project.

    What a shipped spec asks for is dropped.
    """
    for _ in range(100):  # one line may hide another of the same distribution
        lines = _lines(path, root, name)
        required = [line for line in lines if line.key == "requirements"]
        if not _remove_one(path, root, required):
            break
    if required:
        remove_from(path, [name])


def _lines(path: Path, root: Path, name: str) -> list[Line]:
    """Return the lines of a distribution, in the spec and in what it refers to."""
    return read_places(load_spec(path), root).about(name)


def _remove_one(path: Path, root: Path, lines: Sequence[Line]) -> bool:
    """Remove one of some lines; False where none is in the project."""
    for line in lines:
        if line.source != "spec" and _in(root, line):
            _edit(root, line, None)
            return True
    for line in lines:
        if line.source == "spec":
            with pip_table(path) as pip:
                take(pip, "requirements", line.name)
            return True
    return False


def _add_to_file(path: Path, root: Path, requirement: str) -> bool:
    """Add a requirement to a file that the spec refers to; False if the spec is its place."""
    target = load_spec(path)
    of_files, shared, others = [], [], []
    for line in read_places(target, root).about(distribution(requirement)):
        if line.key == "constraints":
            if line.source == "file":
                _constrain(root, line, requirement)
        elif line.source == "file":
            of_files.append(line)
        elif line.source == "inherited" and _in(root, line):
            shared.append(line)
        else:
            others.append(line)
    if others and not of_files:
        return False  # it is the spec's own, or replaces what a shipped one requires
    same = _same(of_files or shared, requirement)
    if same:
        _edit(root, same, _with_marker(requirement, same.text))
        return True
    beside = [_file_of(line) for line in of_files]
    entries = beside or target.pip.files
    return any(_append(root, entry, requirement) for entry in entries)


def _file_of(line: Line) -> str:
    return line.place.rpartition(", line ")[0]


def _in(root: Path, line: Line) -> bool:
    """Whether a line is in a file of the project, and is known by its number."""
    number = line.place.rpartition(", line ")[2]
    return number.isdecimal() and (root / _file_of(line)).is_file()


def _same(lines: Sequence[Line], requirement: str) -> Line | None:
    """Return the line that a requirement replaces: of several that of the same marker."""
    marker = _marker(requirement)
    if len(lines) == 1 and not marker:
        return lines[0]
    alike = [line for line in lines if _marker(line.text) == marker]
    if len(alike) == 1:
        return alike[0]
    return None


def _marker(text: str) -> str:
    try:
        return str(Requirement(text).marker or "")
    except InvalidRequirement:  # the reader tells what is wrong with it
        return ""


def _with_marker(requirement: str, before: str) -> str:
    """Return a requirement for where the one before it was, unless it has its own marker."""
    marker = _marker(before)
    if not marker or _marker(requirement):
        return requirement
    return f"{requirement} ; {Marker(marker)}"


def _constrain(root: Path, line: Line, requirement: str) -> None:
    """Let a constraint say what the requirement does, or they could not both hold."""
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return
    if parsed.specifier:
        _edit(root, line, _with_marker(f"{parsed.name}{parsed.specifier}", line.text))


def _edit(root: Path, line: Line, new: str | None) -> None:
    """Replace or remove a line where it is."""
    name, _, number = line.place.rpartition(", line ")
    path = root / name
    at = Edit(path.suffix, int(number), line.name, line.text)
    try:
        text = with_line(text_of(path), at, new)
    except ValueError as error:
        raise UsageError(
            f"{line.text!r} of {line.place} cannot be edited",
            cause=str(error),
            remedy=f"edit it there, then `provision lock`; the new line is {new or 'none'}",
        ) from error
    rewrite(path, text)


def _append(root: Path, entry: str, requirement: str) -> bool:
    """Add a requirement to an entry of ``[pip] files``; False where nobody writes one by hand."""
    path = root / entry.partition("[")[0]
    if path.suffix in {".yml", ".yaml"} or ":" in path.name:
        return False
    if path.name != "pyproject.toml":
        rewrite(path, appended(text_of(path), requirement))
        return True
    # One of dependency groups alone, or whose dependencies the build computes.
    if not read_pyproject(path, root).says("dependencies"):
        return False
    document = tomlkit.parse(text_of(path))
    document["project"].setdefault("dependencies", []).append(requirement)
    rewrite(path, tomlkit.dumps(document))
    return True


def _entry(path: Path, root: Path, has: Collection[str]) -> str:
    """Return a path as a spec has it; UsageError unless it is of the project."""
    bare = Path(str(path).partition("[")[0])
    if has and not any((bare / name).is_file() for name in has):
        raise UsageError(
            f"{bare} is no package",
            cause=f"it has none of {', '.join(has)}",
            remedy="name the folder of a package",
        )
    if not bare.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"{bare} is outside the project {root}",
            remedy="move it below that folder: a lock refers to what is beside it",
        )
    extras = str(path)[len(str(bare)) :]
    return relative(bare.resolve(), root.resolve()) + extras


def _homes(path: Path, root: Path) -> list[SpecFile]:
    """Return the project's own files of a spec's chain, the spec first."""
    chain = spec_chain(path)
    return [file for file in chain if file.path.absolute().is_relative_to(root)]


def _home_of_entries(path: Path, root: Path) -> Path:
    """Return the spec, or what it extends in the project, that refers to files or folders."""
    for home in _homes(path, root):
        pip = home.data.get("pip", {})
        if "files" in pip or "local" in pip:
            return home.path
    return path


def _add_entry(path: Path, root: Path, key: str, text: str, words: Words) -> None:
    """Add an entry where the spec, or what it extends in the project, has such ones."""
    home = path if words.only_here else _home_of_entries(path, root)
    with pip_table(home) as pip:
        listed = pip.setdefault(key, [])
        if text not in listed:
            listed.append(text)


def _remove_entry(path: Path, root: Path, key: str, gone: Path) -> None:
    """Remove the entry of a file or a folder from wherever it is, if it still does."""
    is_gone = partial(_is_entry, root, gone)
    for home in _homes(path, root):
        if any(map(is_gone, home.data.get("pip", {}).get(key, ()))):
            with pip_table(home.path) as pip:
                take_where(pip, key, is_gone)


def _is_entry(root: Path, path: Path, text: str) -> bool:
    """Whether an entry of a spec is a file or a folder, be it with extras or editable."""
    return local_folder(text, root) == path.resolve()
