"""Lock and requirement files of a repository, read as ``formats.toml`` says, in one shape."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import yaml
from packaging.markers import Marker
from packaging.version import Version

from provision.core.errors import SpecError
from provision.core.limits import read_text
from provision.core.platforms import PLATFORMS
from provision.doctor.data import data
from provision.doctor.locked import LockedDistribution
from provision.doctor.rules.requirements import requirement
from provision.doctor.unpinned import BRING_TORCH, NEWEST, newest
from provision.environment.installed import name_of
from provision.spec.requirement_files import logical_lines

Table = dict[str, Any]
FORMATS = data("formats")
_FAULTS = (ValueError, TypeError, LookupError, AttributeError, OSError, yaml.YAMLError)


@dataclass(frozen=True)
class Package(LockedDistribution):
    """A package of a file; ``index`` is the build of its wheels, such as cu128."""

    where: str = ""  # file and line
    url: str = ""  # of its index, or else of a file
    vendor: bool = False  # whether that is an index of PyTorch or of a maker of GPUs
    unhashed: tuple[str, ...] = ()
    row: Table = field(default_factory=dict)  # as the file has it

    def __str__(self) -> str:
        return f"{self.where}: {self.name} {self.version}".rstrip()

    def on(self, platform: str) -> Self:
        """Return it with the build that the default index has for a platform."""
        ahead = FORMATS["builds_of"].get(self.name)
        if ahead is None or self.index or self.vendor or "conda" in self.row:
            return self
        if self.local:  # a vendor's own build, such as +cxx11.abi of Intel's
            return self
        major, minor = (*(self.parsed.release if self.parsed else ()), 0, 0)[:2]
        release = (2, minor - ahead) if minor >= ahead > 0 else (major, minor)
        known = FORMATS["default_build"][platform].items()
        return replace(
            self, index=[b for v, b in known if Version(v).release <= release][-1]
        )


class Choice(NamedTuple):
    """What one command installs on a platform; ``name`` is the extra or environment, if any."""

    platform: str
    name: str
    packages: dict[str, list[Package]]

    @property
    def torch(self) -> Package:
        """Its torch, the first if there are several."""
        return self.packages["torch"][0]

    def __str__(self) -> str:
        return f"{self.torch} on {self.platform}{f' with {self.name}' if self.name else ''}"


@dataclass(frozen=True)
class Lock:
    """A file; ``python`` is the lowest it allows, ``manifest`` the pyproject.toml beside it."""

    name: str
    form: Table
    lines: Sequence[tuple[str, str]]  # each with its place, those of included files too
    doc: Table
    manifest: Table
    python: str
    complete: bool  # whether it has every package, not only those that are asked for
    packages: Sequence[Package]
    unread: Sequence[
        Package
    ] = ()  # lines that are no requirements, or that no file tells
    choices: Sequence[Choice] = ()  # what can be installed that has torch


def at(table: Any, path: str) -> Any:  # noqa: ANN401 - any value of a foreign file
    """Return the value at a dotted path of nested tables, or None."""
    for key in path.split("."):
        table = table.get(key) if isinstance(table, dict) else None
    return table


_PARSERS: dict[str, Callable[[str], Any]] = {
    "toml": tomllib.loads,
    "yaml": lambda text: yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)),  # noqa: S506
    "lines": lambda text: {"rows": [line for _, line in logical_lines(text)]},
}


def read_repository(folder: Path) -> list[Lock]:
    """Return the lock and requirement files of a folder; SpecError if one cannot be read."""
    locks: list[Lock] = []
    for kind, form in FORMATS["file"].items():
        for path in sorted(folder.glob(kind)):
            try:
                locks.append(_read(path, form, locks[0].doc if locks else {}))
            except (*_FAULTS, RecursionError) as error:
                what, remedy = (
                    f"cannot read {path}",
                    "correct it, or write it again with its tool",
                )
                raise SpecError(what, evidence=str(error), remedy=remedy) from error
    return locks


def _read(path: Path, form: Table, manifest: Table) -> Lock:
    lines = [
        (place.removeprefix(f"{path.parent}/"), line) for place, line in _lines(path)
    ]
    text = "\n".join(line for _, line in lines)
    form = form | {
        "conda": "conda" in form or re.search(FORMATS["pattern"]["for_conda"], text)
    }
    doc = _PARSERS[form["parse"]](text) or {}
    if not isinstance(doc, dict):
        raise TypeError("it is no table of names and values")
    begins = [
        place for place, line in lines if re.match(form.get("line", "(?!)"), line)
    ]
    packages = []
    for number, row in enumerate(_rows(form, at(doc, form.get("rows", "")) or ())):
        word = re.escape(row["line"].split()[0]) if "line" in row else "(?!)"
        named = (
            n for n, line in lines if re.search(rf"(?<![\w/.-]){word}(?![\w.-])", line)
        )
        place = begins[number] if begins else next(named, lines[0][0])
        packages.append(_package(path, form, row, place))
    pythons = re.findall(r"\b3\.\d+", str(at(doc, form.get("python", ""))))
    python, complete = (
        min(pythons, default="3.11", key=Version),
        "hash" in form or "--hash" in text,
    )
    known, unread = (
        [p for p in packages if bool(p.row.get("unread")) is n] for n in (False, True)
    )
    known = _from_named_index(known, lines)
    lock = Lock(path.name, form, lines, doc, manifest, python, complete, known, unread)
    return replace(lock, choices=list(_choices(lock)))


def _from_named_index(
    packages: list[Package], lines: Sequence[tuple[str, str]]
) -> list[Package]:
    """Give torch and its companions the build of the index that a requirement file names."""
    pattern = FORMATS["pattern"]
    urls = [m[1] for _, line in lines if (m := re.match(pattern["index_option"], line))]
    builds = {match[1] for url in urls if (match := re.search(pattern["index"], url))}
    if len(builds) != 1:
        return packages
    build = builds.pop()
    result = []
    for package in packages:
        if package.name in FORMATS["builds_of"] and not package.index:
            package = replace(package, index=build)  # noqa: PLW2901 - the one to keep
        result.append(package)
    return result


def _lines(path: Path, above: Sequence[Path] = ()) -> Iterator[tuple[str, str]]:
    """Yield the places and lines of a file, and of requirement files in place of their names."""
    chain = [*above, path.resolve()]
    if chain[-1] in above:
        raise ValueError(f"it includes itself: {' → '.join(map(str, chain))}")
    for number, line in enumerate(read_text(path).split("\n"), 1):
        included = re.match(FORMATS["pattern"]["include"], line)
        if included and (file := path.parent / included[1]).is_file():
            yield from _lines(file, chain)
        else:
            yield f"{path}:{number}", line


def _rows(form: Table, rows: Sequence[Any]) -> Iterator[Table]:
    """Yield each package as a table with a name and, where it has one, an exact version."""
    for row in rows:
        if isinstance(row, str):
            found = re.match(FORMATS["pattern"]["pinned"], row)
            name, version, build, url = found.groups("") if found else ("", "", "", "")
            marker = row.partition(" --")[0].partition(";")[2].strip()
            unread = next(
                (c for c, p in FORMATS["unread"].items() if re.match(p, row)), ""
            )
            more = {"conda": row, "build": build}
            more = more if form.get("conda") else {"marker": marker, "unread": unread}
            if more.get("unread") != "own":
                yield {
                    "name": name,
                    "version": version,
                    "url": url,
                    "line": row,
                    **more,
                }
        elif "pip" in row:  # in environment.yml
            yield from _rows({}, row["pip"])
        elif url := row.get("conda") or (row.get("kind") == "conda" and row["url"]):
            name, version, build = url.rpartition("/")[2].rsplit("-", 2)
            yield {
                "name": name,
                "version": version,
                "build": build,
                **row,
                "conda": url,
            }
        else:
            yield row


def _package(path: Path, form: Table, row: Table, where: str) -> Package:
    conda, own = row.get("conda"), row.get("pypi") or row.get("url") or ""
    held = [row.get(key) or [] for key in form.get("files", ())]
    files = [
        f for value in held for f in (value if isinstance(value, list) else [value])
    ]
    files = files or ([row] if own or conda else [])
    url = at(row, form.get("index", "")) or next(
        (f["url"] for f in files if "url" in f), own
    )
    bare = [f for f in files if form.get("hash") and not any(map(f.get, form["hash"]))]
    names = (
        unquote(f.get("name") or f.get("file") or f.get("url") or own) for f in bare
    )
    name = row.get("name") or unquote(own).rpartition("/")[2].partition("-")[0]
    version = str(row.get("version", ""))
    needs = FORMATS["needs"]
    asked = f" {row['build']}" if conda else f"{url} /whl/{version.partition('+')[2]}"
    built = re.search(FORMATS["pattern"]["conda" if conda else "index"], asked)
    return Package(
        "torch" if conda and name in FORMATS["conda_torch"] else name_of(name),
        version,
        path,
        "".join(built.groups("")) if built else "",
        origin=conda or own,
        where=where,
        url=url,
        vendor=bool(re.search(FORMATS["pattern"]["vendor"], url)),
        row=row,
        unhashed=tuple(name.rpartition("/")[2] for name in names),
        requires=tuple(needs.get(f"{name} {version}") or needs.get(name, ())),
    )


def _choices(lock: Lock) -> Iterator[Choice]:
    walk = {"uv.lock": _of_uv, "pixi.lock": _of_pixi}.get(lock.name, _by_marker)
    served = lock.doc.get("supported-markers", [""])
    # Where a manifest sends torch to an index, only its lock says what comes of it.
    routed = at(lock.doc, "tool.uv.sources.torch")
    for platform in () if routed else FORMATS["default_build"]:
        for name, packages in walk(lock, platform):
            named: dict[str, list[Package]] = defaultdict(list)
            for package in packages:
                named[package.name].append(package)
            _complete(named)
            for several in named.values():
                several[:] = [package.on(platform) for package in several]
            if "torch" in named and any(
                _holds(m, platform, lock.python) for m in served
            ):
                yield Choice(platform, name, named)


def _complete(packages: dict[str, list[Package]]) -> None:
    """Fill in what an installer takes beside IPEX or ipex-llm, which a file may not say."""
    first = next((name for name in BRING_TORCH if name in packages), None)
    if first is None:
        return
    if "torch" not in packages:
        where = f"{packages[first][0].where}, with {first}"
        brought = replace(packages[first][0], name="torch", version="", where=where)
        packages["torch"] = [replace(brought, row={}, requires=())]
    for name in NEWEST:
        for number, package in enumerate(packages.get(name, ())):
            wanted = requirement(package.row.get("line", "").partition(" --")[0])
            if wanted and not package.version and "conda" not in package.row:
                version = newest(name, wanted.specifier)
                needs = FORMATS["needs"].get(name, ())
                packages[name][number] = replace(
                    package,
                    version=version,
                    requires=tuple(needs),
                    where=f"{package.where} (the newest)",
                )


def _of_uv(lock: Lock, platform: str) -> Iterator[tuple[str, list[Package]]]:
    default = at(lock.manifest, "tool.uv.default-groups") or ["dev"]
    conflicts = lock.doc.get("conflicts", [])
    for root in lock.packages:
        groups, own = root.row.get("dev-dependencies", {}), {"package": root.name}
        if not {"editable", "virtual"} & set(root.row.get("source", ())):
            continue
        for extra in ("", *root.row.get("optional-dependencies", ())):
            barred = [
                e for some in conflicts if own | {"extra": extra} in some for e in some
            ]
            used = [
                g
                for g in groups
                if (default == "all" or g in default)
                and own | {"group": g} not in barred
            ]
            names = [f"extra-{len(root.name)}-{root.name}-{extra}"]
            names += [f"group-{len(root.name)}-{root.name}-{group}" for group in used]
            needs = [need for group in used for need in groups[group]]
            needs += [
                {"name": root.name, "source": root.row["source"], "extra": [extra]}
            ]
            yield extra, _reached(lock, needs, platform, frozenset(names))


def _reached(
    lock: Lock, needs: list[Table], platform: str, on: frozenset[str]
) -> list[Package]:
    """Return the packages that are required, directly or not."""
    todo, found, named = [*needs], dict[tuple[str, str], Package](), defaultdict(list)
    for package in lock.packages:
        named[package.name].append(package)
    while todo:
        need = todo.pop()
        asked = _holds(need.get("marker", ""), platform, lock.python, on)
        for package in named[need["name"]] if asked else ():
            row = package.row
            same = all(
                need.get(key, row.get(key)) == row.get(key)
                for key in ("version", "source")
            )
            for part in {"", *need.get("extra", ())} if same else ():
                if (package.where, part) not in found:
                    found[package.where, part] = package
                    more = row.get("optional-dependencies", {}).get(part, ())
                    todo += more if part else row.get("dependencies", ())
    return [package for (_, part), package in found.items() if not part]


def _of_pixi(lock: Lock, platform: str) -> Iterator[tuple[str, list[Package]]]:
    named = {
        p["name"]: p.get("subdir", p["name"]) for p in lock.doc.get("platforms", ())
    }
    by_url = {
        p.row.get("conda") or p.row.get("pypi") or p.row.get("url"): p
        for p in lock.packages
    }
    for name, table in lock.doc.get("environments", {}).items():
        for own, items in table["packages"].items():
            urls = [item.get("conda") or item.get("pypi") for item in items]
            if named.get(own, own) == platform:
                yield name, [by_url[url] for url in urls if url in by_url]


def _by_marker(lock: Lock, platform: str) -> Iterator[tuple[str, list[Package]]]:
    for extra in ("", *(at(lock.doc, lock.form.get("extras", "")) or ())):
        yield (
            extra,
            [
                p
                for p in lock.packages
                if any(
                    _holds(m, platform, lock.python, frozenset({extra}))
                    for m in _markers(p.row)
                )
            ],
        )


def _markers(row: Table) -> list[str]:
    marker = (
        row.get("marker") or row.get("markers") or ({} if row.get("optional") else "")
    )
    return (
        list(marker.values()) if isinstance(marker, dict) else [marker]
    )  # by group (poetry)


@cache
def _holds(
    marker: str, platform: str, python: str, on: frozenset[str] = frozenset()
) -> bool:
    """Whether a marker is true on a platform, for extras and groups as their tool writes them."""
    said = FORMATS["pattern"]["extra"]
    text = re.sub(
        said, lambda m: f"{m[2]} {'in' if m[1] == '==' else 'not in'} extras", marker
    )
    values: Any = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "extras": on,
    }
    return not text or Marker(text).evaluate(
        values | PLATFORMS[platform].markers, "lock_file"
    )
