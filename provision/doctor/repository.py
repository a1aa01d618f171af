"""Lock and requirement files of a repository, read as ``formats.toml`` says, in one shape."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from packaging.version import Version

from provision.core.errors import SpecError
from provision.core.limits import (
    INCLUDED,
    NESTED,
    is_inside,
    read_text,
    repository_of,
    require_inside,
)
from provision.core.toml import parse_toml
from provision.doctor.data import data
from provision.doctor.locked import LockedDistribution
from provision.doctor.rules.requirements import requirement
from provision.environment.installed import name_of
from provision.spec.pip_files import logical_lines
from provision.spec.pyproject import FAULTS, Pyproject, read_pyproject

Table = dict[str, Any]
FORMATS = data("formats")
_PATTERNS: dict[str, str] = FORMATS["pattern"]
_FAULTS = (ValueError, TypeError, LookupError, AttributeError, OSError, RecursionError)


@dataclass(frozen=True)
class Package(LockedDistribution):
    """A package of a file; ``index`` is the build of its wheels, such as cu128."""

    where: str = ""  # file and line
    url: str = ""  # of its index, or else of a file
    vendor: bool = False  # whether that is an index of PyTorch or of a maker of GPUs
    unhashed: tuple[str, ...] = ()
    line: str = ""  # of a requirement file
    part: str = ""  # the extra that requires it
    row: Table = field(default_factory=dict)  # as a lock has it

    def __str__(self) -> str:
        return f"{self.where}: {self.name} {self.version}".rstrip()

    def on(self, platform: str) -> Self:
        """Return it with the build that the default index has for a platform."""
        ahead = FORMATS["builds_of"].get(self.name)
        # A local version is a vendor's own build, such as +cxx11.abi of Intel's.
        if ahead is None or self.index or self.vendor or self.local:
            return self
        release = (0, 0)
        if self.parsed:
            release = (self.parsed.major, self.parsed.minor)
        if release[1] >= ahead > 0:
            release = (2, release[1] - ahead)
        build = ""
        for since, name in FORMATS["default_build"][platform].items():
            if Version(since).release <= release:
                build = name
        return replace(self, index=build)


@dataclass(frozen=True)
class RepositoryFile:
    """A lock or requirement file of a folder."""

    name: str
    document: Table
    manifest: Table  # the pyproject.toml beside it
    python: str  # the lowest that it allows
    platform: str  # the only one that it is for, "" for any
    complete: bool  # whether it has every package, not only those that are asked for
    packages: Sequence[Package]
    unread: Sequence[str]  # places and lines that no file tells


def at(table: Any, path: str) -> Any:  # noqa: ANN401 - any value of a foreign file
    """Return the value at a dotted path of nested tables, or None."""
    for key in path.split("."):
        table = table.get(key) if isinstance(table, dict) else None
    return table


def read_repository(folder: Path) -> list[RepositoryFile]:
    """Return the lock and requirement files of a folder; SpecError if one cannot be read."""
    files = list[RepositoryFile]()
    for pattern, form in FORMATS["file"].items():
        for path in sorted(folder.glob(pattern)):
            try:
                manifest = files[0].document if files else {}
                files.append(_read_file(path, form, manifest))
            except _FAULTS as error:
                raise SpecError(
                    f"cannot read {path}",
                    evidence=str(error),
                    remedy="correct it, or write it again with its tool",
                ) from error
    return files


def _read_file(path: Path, form: Table, manifest: Table) -> RepositoryFile:
    document: Table = {}
    unread = list[str]()
    platforms = []
    require_inside(path, path.parent)
    if path.suffix == ".txt":
        lines = list(_lines(path, path.parent, (), set()))
        packages, unread = _required(path, lines)
        platforms = re.findall(_PATTERNS["platform"], read_text(path))
    elif "line" in form:
        document = parse_toml(read_text(path))
        packages = list(_locked(path, form, at(document, form["rows"]) or []))
    else:
        project = read_pyproject(path, path.parent)
        document = project.document
        packages, unread = _of_manifest(project)
    allowed = at(document, form.get("python", ""))
    pythons = re.findall(r"\b3\.\d+", str(allowed))
    return RepositoryFile(
        name=path.name,
        document=document,
        manifest=manifest,
        python=min(pythons, default="3.11", key=Version),
        platform=platforms[0] if platforms else "",
        complete="line" in form or any("--hash" in p.line for p in packages),
        packages=packages,
        unread=unread,
    )


# --- pyproject.toml -----------------------------------------------------------------------


def _of_manifest(project: Pyproject) -> tuple[list[Package], list[str]]:
    """Return the packages of a package itself and of its extras, and what was not examined."""
    packages, unread = list[Package](), [*_left_to_locks(project)]
    for part in ("", *project.extras):
        try:
            lines = _lines_of(project, part)
        except FAULTS as error:
            if not part:
                raise
            # An installer takes the package without it.
            unread.append(f"{project.path.name}: extra {part}: {error}")
            continue
        told, others = _required(project.path, lines)
        packages += [replace(package, part=part) for package in told]
        unread += others
    return packages, unread


def _lines_of(project: Pyproject, part: str) -> list[tuple[str, str]]:
    """Return the places and lines of a package itself, or of one of its extras only."""
    lines = []
    if project.says("dependencies"):
        for line in project.requirements([part] if part else ()):
            if line.part[1] == part:
                lines.append((f"{project.path.name}:{line.number}", line.text))
    return lines


def _left_to_locks(project: Pyproject) -> Iterator[str]:
    """Yield what only a lock tells, where there is none."""
    folder, name = project.folder, project.path.name
    if any(folder.glob("*.lock")) or any(folder.glob("pylock*.toml")):
        return
    if at(project.document, "tool.uv.sources.torch"):
        yield f"{name}: [tool.uv.sources] names where torch comes from"
    if project.says("dependencies"):
        return
    if project.project:
        yield f"{name}: its dependencies are dynamic"
    elif at(project.document, "tool.poetry.dependencies"):
        yield f"{name}: [tool.poetry.dependencies]"


# --- requirements -------------------------------------------------------------------------


def _lines(
    path: Path, base: Path, including: Sequence[Path], read: set[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the places and lines of a file, and once of each that it includes."""
    chain = [*including, path.resolve()]
    read.add(chain[-1])
    for number, text in logical_lines(read_text(path)):
        option = re.match(_PATTERNS["include"], text)
        where = f"{str(path).removeprefix(f'{base}/')}:{number}"
        if not (option and (path.parent / option[1]).is_file()):
            yield where, text
            continue
        included = path.parent / option[1]
        if error := _not_included(included.resolve(), base, chain, read):
            raise ValueError(f"{where}: {text}: {error}")
        if included.resolve() not in read:
            yield from _lines(included, base, chain, read)


def _not_included(
    path: Path, base: Path, chain: Sequence[Path], read: Collection[Path]
) -> str:
    """Return why a file cannot be included, or ""."""
    if path in chain:
        names = [*chain[chain.index(path) :], path]
        return f"it includes itself: {' → '.join(map(str, names))}"
    if not is_inside(path, base):
        return f"it is outside the project {repository_of(base)}"
    if len(chain) >= NESTED or len(read) > INCLUDED:
        return (
            f"more than {NESTED} files include each other, or {INCLUDED} are included"
        )
    return ""


def _required(
    path: Path, lines: Sequence[tuple[str, str]]
) -> tuple[list[Package], list[str]]:
    """Return the packages of requirements, and the lines that are none."""
    packages, unread = list[Package](), list[str]()
    build = _named_build([text for _, text in lines])
    for where, text in lines:
        package = _from_requirement(path, where, text)
        if package is None:
            if not re.match(_PATTERNS["own"], text):
                unread.append(f"{where}: {text}")
            continue
        # torch and its companions have the build of the index that the file names
        if package.name in FORMATS["builds_of"] and not package.index:
            package = replace(package, index=build)
        packages.append(package)
    return packages, unread


def _from_requirement(path: Path, where: str, text: str) -> Package | None:
    """Return the package of a requirement, or None if it is none that a file tells."""
    wanted = requirement(re.sub(r"\s--?\w.*", "", text))
    if wanted is None or "$" in text:
        return None
    version = ""
    for bound in wanted.specifier:
        if not version and bound.operator in ("==", "==="):
            version = bound.version
    url = wanted.url or ""
    file = unquote(url).rpartition("/")[2]
    if file.endswith(".whl") and "-" in file:
        version = file.split("-")[1]
    return Package(
        name=wanted.name,
        version=version,
        folder=path,
        index=_build_of(url, version),
        origin=url,
        requires=requirements_of(wanted.name, version),
        where=where,
        url=url,
        vendor=bool(re.search(_PATTERNS["vendor"], url)),
        line=text,
        row={"marker": str(wanted.marker or "")},
    )


def _named_build(texts: Sequence[str]) -> str:
    """Return the build of the one index of torch that a requirement file names, or ""."""
    builds = set()
    for text in texts:
        option = re.match(_PATTERNS["index_option"], text)
        build = _build_of(option[1], "") if option else ""
        if build:
            builds.add(build)
    return builds.pop() if len(builds) == 1 else ""


def _build_of(url: str, version: str) -> str:
    """Return the build of torch that a URL or a local version names, such as cu128, or ""."""
    build = re.search(_PATTERNS["index"], f"{url} /whl/{version.partition('+')[2]}")
    return build[1] if build else ""


def requirements_of(name: str, version: str) -> tuple[str, ...]:
    """Return the requirements of a release that a pin alone does not tell."""
    needs = FORMATS["needs"]
    return tuple(needs.get(f"{name} {version}") or needs.get(name, ()))


# --- lock files -----------------------------------------------------------------------------


def _locked(path: Path, form: Table, rows: Sequence[Table]) -> Iterator[Package]:
    """Yield the packages of a lock."""
    numbers = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.startswith(form["line"]):
            numbers.append(number)
    for number, row in zip(numbers, rows, strict=True):
        if not isinstance(row.get("source", {}), dict):
            raise TypeError(f"the source of {row['name']} is no table")
        url = at(row, form["index"]) or ""
        unhashed = []
        for key in form["files"]:
            for file in _files(row.get(key)):
                url = url or file.get("url", "")
                if not file.get(form["hash"]):
                    unhashed.append(_name(file))
        version = str(row.get("version", ""))
        yield Package(
            name=name_of(row["name"]),
            version=version,
            folder=path,
            index=_build_of(url, version),
            requires=requirements_of(row["name"], version),
            where=f"{path.name}:{number}",
            url=url,
            vendor=bool(re.search(_PATTERNS["vendor"], url)),
            unhashed=tuple(unhashed),
            row=row,
        )


def _files(value: list[Table] | Table | None) -> list[Table]:
    """Return the files of a row: wheels are a list, a source distribution is a table."""
    if isinstance(value, dict):
        return [value]
    return value or []


def _name(file: Table) -> str:
    name = file.get("name") or file.get("file") or file.get("url", "")
    return unquote(name).rpartition("/")[2]
