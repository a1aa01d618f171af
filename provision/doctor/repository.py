"""Lock and requirement files of a repository, read as ``formats.toml`` says, in one shape."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import yaml
from packaging.version import Version

from provision.core.errors import SpecError
from provision.core.limits import read_text
from provision.doctor.data import data
from provision.doctor.locked import LockedDistribution
from provision.environment.installed import name_of
from provision.spec.requirement_files import logical_lines

Table = dict[str, Any]
FORMATS = data("formats")
_PATTERNS: dict[str, str] = FORMATS["pattern"]
_FAULTS = (ValueError, TypeError, LookupError, AttributeError, OSError, yaml.YAMLError)


@dataclass(frozen=True)
class Package(LockedDistribution):
    """A package of a file; ``index`` is the build of its wheels, such as cu128."""

    where: str = ""  # file and line
    url: str = ""  # of its index, or else of a file
    vendor: bool = False  # whether that is an index of PyTorch or of a maker of GPUs
    conda: bool = False
    unhashed: tuple[str, ...] = ()
    unread: str = ""  # the case that tells why its line is no requirement
    line: str = ""  # of a requirement file
    row: Table = field(default_factory=dict)  # as a lock has it

    def __str__(self) -> str:
        return f"{self.where}: {self.name} {self.version}".rstrip()

    def on(self, platform: str) -> Self:
        """Return it with the build that the default index has for a platform."""
        ahead = FORMATS["builds_of"].get(self.name)
        if ahead is None or self.index or self.vendor or self.conda:
            return self
        if self.local:  # a vendor's own build, such as +cxx11.abi of Intel's
            return self
        release = (*(self.parsed.release if self.parsed else ()), 0, 0)[:2]
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
    form: Table
    document: Table
    manifest: Table  # the pyproject.toml beside it
    python: str  # the lowest that it allows
    complete: bool  # whether it has every package, not only those that are asked for
    packages: Sequence[Package]
    unread: Sequence[Package]  # lines that are no requirements, or that no file tells


def at(table: Any, path: str) -> Any:  # noqa: ANN401 - any value of a foreign file
    """Return the value at a dotted path of nested tables, or None."""
    for key in path.split("."):
        table = table.get(key) if isinstance(table, dict) else None
    return table


def read_repository(folder: Path) -> list[RepositoryFile]:
    """Return the lock and requirement files of a folder; SpecError if one cannot be read."""
    files: list[RepositoryFile] = []
    for pattern, form in FORMATS["file"].items():
        for path in sorted(folder.glob(pattern)):
            manifest = files[0].document if files else {}
            try:
                files.append(_read_file(path, form, manifest))
            except (*_FAULTS, RecursionError) as error:
                raise SpecError(
                    f"cannot read {path}",
                    evidence=str(error),
                    remedy="correct it, or write it again with its tool",
                ) from error
    return files


def _read_file(path: Path, form: Table, manifest: Table) -> RepositoryFile:
    document: Table = {}
    if form["parse"] == "lines":
        packages = list(_requirement_file(path))
    else:
        document = _parsed(path, form["parse"])
        rows = at(document, form.get("rows", "")) or ()
        read = _lock_rows if "line" in form else _requirement_rows
        packages = list(read(path, form, rows))
    pythons = re.findall(r"\b3\.\d+", str(at(document, form.get("python", ""))))
    hashed = any("--hash" in package.line for package in packages)
    return RepositoryFile(
        name=path.name,
        form=form,
        document=document,
        manifest=manifest,
        python=min(pythons, default="3.11", key=Version),
        complete="hash" in form or hashed,
        packages=[package for package in packages if not package.unread],
        unread=[package for package in packages if package.unread],
    )


def _parsed(path: Path, syntax: str) -> Table:
    text = read_text(path)
    document = tomllib.loads(text) if syntax == "toml" else yaml.safe_load(text)
    if not isinstance(document or {}, dict):
        raise TypeError("it is no table of names and values")
    return document or {}


# --- requirements -------------------------------------------------------------------------


def _requirement_file(path: Path) -> Iterator[Package]:
    """Yield the requirements of a file in pip's format, or in that of `conda list`."""
    of_conda = re.search(_PATTERNS["for_conda"], read_text(path))
    lines = list(_lines(path, path.parent))
    build = _named_build(lines)
    for where, text in lines:
        if of_conda:
            yield _from_conda(path, where, text)
        elif package := _from_requirement(path, where, text):
            # torch and its companions have the build of the index that the file names
            if package.name in FORMATS["builds_of"] and not package.index:
                package = replace(package, index=build)
            yield package


def _lines(
    path: Path, base: Path, above: Sequence[Path] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the places and lines of a file, and of included files in place of their names."""
    chain = [*above, path.resolve()]
    if chain[-1] in above:
        raise ValueError(f"it includes itself: {' → '.join(map(str, chain))}")
    for number, text in logical_lines(read_text(path)):
        option = re.match(_PATTERNS["include"], text)
        if option and (path.parent / option[1]).is_file():
            yield from _lines(path.parent / option[1], base, chain)
        else:
            yield f"{str(path).removeprefix(f'{base}/')}:{number}", text


def _named_build(lines: Sequence[tuple[str, str]]) -> str:
    """Return the build of the one index of torch that a requirement file names, or ""."""
    builds = set()
    for _, text in lines:
        option = re.match(_PATTERNS["index_option"], text)
        index = re.search(_PATTERNS["index"], option[1]) if option else None
        if index:
            builds.add(index[1])
    return builds.pop() if len(builds) == 1 else ""


def _requirement_rows(
    path: Path, form: Table, rows: Sequence[Any]
) -> Iterator[Package]:
    """Yield the dependencies of an environment.yml, or of a pyproject.toml."""
    lines = read_text(path).splitlines()
    for row in rows:
        if not isinstance(row, str):
            yield from _requirement_rows(path, {}, row.get("pip", ()))
            continue
        number = next((n for n, line in enumerate(lines, 1) if row in line), 1)
        where = f"{path.name}:{number}"
        if "conda" in form:
            yield _from_conda(path, where, row)
        elif package := _from_requirement(path, where, row):
            yield package


def _from_requirement(path: Path, where: str, text: str) -> Package | None:
    """Return the package of a requirement; None of an option, or of the user's own path."""
    unread = ""
    for case, pattern in FORMATS["unread"].items():
        if re.match(pattern, text):
            unread = case
            break
    if unread == "own":
        return None
    match = re.match(_PATTERNS["pinned"], text)
    name, version, _, url = match.groups("") if match else ("", "", "", "")
    index = re.search(_PATTERNS["index"], f"{url} /whl/{version.partition('+')[2]}")
    return Package(
        name=name_of(name),
        version=version,
        folder=path,
        index=index[1] if index else "",
        origin=url,
        requires=_needs(name, version),
        where=where,
        url=url,
        vendor=bool(re.search(_PATTERNS["vendor"], url)),
        unread=unread,
        line=text,
        row={"marker": text.partition(" --")[0].partition(";")[2].strip()},
    )


def _from_conda(path: Path, where: str, text: str) -> Package:
    match = re.match(_PATTERNS["pinned"], text)
    name, version, build, _ = match.groups("") if match else ("", "", "", "")
    index = re.search(_PATTERNS["conda"], build)
    if name in FORMATS["conda_torch"]:
        name = "torch"
    return Package(
        name=name_of(name),
        version=version,
        folder=path,
        index="".join(index.groups("")) if index else "",
        where=where,
        conda=True,
    )


# --- lock files -----------------------------------------------------------------------------


def _lock_rows(path: Path, form: Table, rows: Sequence[Any]) -> Iterator[Package]:
    """Yield the packages of a lock."""
    lines = enumerate(read_text(path).splitlines(), 1)
    numbers = [number for number, line in lines if re.match(form["line"], line)]
    for number, row in zip(numbers, rows, strict=True):
        yield _from_lock(path, form, row, f"{path.name}:{number}")


def _from_lock(path: Path, form: Table, row: Table, where: str) -> Package:
    if not isinstance(row.get("source", {}), dict):
        raise TypeError(f"the source of {row['name']} is no table")
    files: list[Table] = []
    for key in form["files"]:
        several = row.get(key) or []
        files += several if isinstance(several, list) else [several]
    urls = [file["url"] for file in files if "url" in file]
    url = at(row, form["index"]) or (urls[0] if urls else "")
    version = str(row.get("version", ""))
    index = re.search(_PATTERNS["index"], f"{url} /whl/{version.partition('+')[2]}")
    return Package(
        name=name_of(row["name"]),
        version=version,
        folder=path,
        index=index[1] if index else "",
        requires=_needs(row["name"], version),
        where=where,
        url=url,
        vendor=bool(re.search(_PATTERNS["vendor"], url)),
        unhashed=tuple(
            _file_name(file) for file in files if not file.get(form["hash"])
        ),
        row=row,
    )


def _file_name(file: Table) -> str:
    name = file.get("name") or file.get("file") or file.get("url", "")
    return unquote(name).rpartition("/")[2]


def _needs(name: str, version: str) -> tuple[str, ...]:
    """Return the requirements of a release that a pin alone does not tell."""
    needs = FORMATS["needs"]
    return tuple(needs.get(f"{name} {version}") or needs.get(name, ()))
