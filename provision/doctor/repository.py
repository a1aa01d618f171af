"""Lock and requirement files of a repository in one shape, and what each installs where.

``formats.toml`` says which files are read and where each has what. Nothing of them is run.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import yaml
from packaging.markers import Marker
from packaging.version import Version

from provision.core.errors import SpecError
from provision.core.limits import read_text
from provision.doctor.data import data
from provision.doctor.locked import LockedDistribution
from provision.environment.installed import name_of
from provision.spec.requirement_files import logical_lines

if TYPE_CHECKING:
    from pathlib import Path

Table = dict[str, Any]
FORMATS = data("formats")
_VENDOR = re.compile(r"/whl/(?:nightly/|test/)?(cpu|cu\d+|xpu|rocm[\d.]+)\b")
_CONDA_BUILD = re.compile(r"(cpu)|(cu)(?:da)?_?(\d\d)\.?(\d)")
_PINNED = re.compile(
    r"(?:\S+::)?([\w.-]+)(?:\[[^]]*\])?\s*(?:={1,3}\s*([\w.+!]+)(?:=(\S+))?|@\s*(\S+))?"
)
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError,
               yaml.YAMLError)  # fmt: skip
_EXTRA = re.compile(r"""\bextra (==|!=) ['"]([\w.-]+)['"]""")


@dataclass(frozen=True)
class Package(LockedDistribution):
    """A package of a file; ``index`` is the build of its wheels, such as cu128."""

    where: str = ""  # file and line
    url: str = ""  # of its index, or else of a file
    vendor: bool = False  # whether that is an index of PyTorch or of a maker of GPUs
    unhashed: tuple[str, ...] = ()
    row: Table = field(default_factory=dict)  # as the file has it

    def on(self, platform: str) -> Package:
        """Return it with the build that the default index has for a platform."""
        ahead = data("formats")["builds_of"].get(self.name)
        if ahead is None or self.index or self.vendor or "conda" in self.row:
            return self
        release = (*(self.parsed.release if self.parsed else (0,)), 0)[:2]
        release = (2, release[1] - ahead) if ahead and release[1] >= ahead else release
        known = data("formats")["default_build"][platform]
        builds = [b for first, b in known.items() if Version(first).release <= release]
        return replace(self, index=builds[-1] if builds else "")


class Choice(NamedTuple):
    """What one command installs on a platform; ``name`` is the extra or environment, if any."""

    platform: str
    name: str
    packages: Mapping[str, list[Package]]


@dataclass(frozen=True)
class Lock:
    """A file; ``python`` is the lowest it allows, ``manifest`` the pyproject.toml beside it."""

    name: str
    form: Table
    text: str
    doc: Table
    manifest: Table
    packages: list[Package]
    python: str
    complete: bool  # whether it has every package, not only those that are asked for
    choices: tuple[Choice, ...] = ()  # what can be installed that has torch


Walk = Iterator[tuple[str, str, list[Package]]]


def at(table: Table, path: str) -> Any:  # noqa: ANN401 - any value of a foreign file
    """Return the value at a dotted path of nested tables, or None."""
    value: Any = table
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_repository(folder: Path) -> list[Lock]:
    """Return the lock and requirement files of a folder.

    Raises:
        SpecError: A file cannot be read.
    """
    locks: list[Lock] = []
    for kind, form in data("formats")["file"].items():
        for path in sorted(folder.glob(kind)):
            try:
                text = read_text(path)
                lock = _lock(path, text, form, locks[0].doc if locks else {})
                locks.append(replace(lock, choices=tuple(_choices(lock))))
            except _UNREADABLE as error:
                what, remedy = f"cannot read {path}", "correct it, or write it again with its tool"
                raise SpecError(what, evidence=str(error), remedy=remedy) from error
    return locks


def _lock(path: Path, text: str, form: Table, manifest: Table) -> Lock:
    if path.suffix == ".txt":
        doc: Table = {"rows": [line for _, line in logical_lines(text)]}
    elif path.suffix in (".yml", ".yaml") or path.name == "pixi.lock":
        doc = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}  # noqa: S506
    else:
        doc = tomllib.loads(text)
    if not isinstance(doc, dict):
        raise TypeError("it is no table of names and values")
    lines = [*enumerate(text.split("\n"), 1)]
    begins = [n for n, line in lines if "line" in form and re.match(form["line"], line)]
    packages = []
    for number, row in enumerate(_rows(form, doc)):
        first = row.get("line", "\n").split()[:1]
        found = begins[number:] or [n for n, line in lines if first and first[0] in line] or [1]
        packages.append(_package(path, form, row, f"{path.name}:{found[0]}"))
    allowed = re.findall(r"(?:>=?|[~^]=?|==)\s*(3\.\d+)", str(at(doc, form.get("python", "-"))))
    python = min(allowed, default="3.11", key=Version)
    complete = bool(form.get("hash")) or "--hash" in text
    return Lock(path.name, form, text, doc, manifest, packages, python, complete)


def _rows(form: Table, doc: Table) -> Iterator[Table]:
    """Yield each package as a table with a name and, where it has one, a version."""
    rows: list[tuple[Any, Table]] = [(row, {}) for row in at(doc, form.get("rows", "-")) or ()]
    for extra, lines in (at(doc, form.get("optional", "-")) or {}).items():
        rows += [(line, {"extra": extra}) for line in lines]
    for row, more in rows:
        if isinstance(row, str):
            yield {**_required(row, "conda" if form.get("conda") else "marker"), **more}
        elif "pip" in row:  # in environment.yml
            yield from (_required(line, "marker") for line in row["pip"])
        elif url := row.get("conda") or (row.get("kind") == "conda" and row["url"]):
            name, version, build = url.rpartition("/")[2].rsplit("-", 2)
            yield {"name": name, "version": version, "build": build, **row, "conda": url}
        else:
            yield row


def _required(line: str, kind: str) -> Table:
    """Return the table of a requirement; only an exact version counts."""
    found = _PINNED.match(line)
    name, version, build, url = found.groups("") if found else ("", "", "", "")
    rest = line if kind == "conda" else line.partition(" --")[0].partition(";")[2].strip()
    return {"name": name, "version": version, "build": build, "line": line, "url": url, kind: rest}


def _package(path: Path, form: Table, row: Table, where: str) -> Package:
    conda, own = row.get("conda"), row.get("pypi") or row.get("url") or ""
    name = row.get("name") or unquote(own).rpartition("/")[2].partition("-")[0]
    held = [row.get(key) or [] for key in form.get("files", ())]
    files = [f for value in held for f in (value if isinstance(value, list) else [value])]
    files = files or ([row] if own or conda else [])
    names = [unquote(f.get("name") or f.get("file") or f.get("url") or own) for f in files]
    url = at(row, form.get("index", "-")) or next((f["url"] for f in files if f.get("url")), own)
    version, hashes = str(row.get("version", "")), form.get("hash", ())
    of_url = _VENDOR.search(url) or _VENDOR.search(f"/whl/{version.partition('+')[2]}")
    built = _CONDA_BUILD.search(row.get("build") or "") if conda else of_url
    bare = [n for n, f in zip(names, files, strict=True) if hashes and not any(map(f.get, hashes))]
    return Package(
        "torch" if conda and name in data("formats")["conda_torch"] else name_of(name), version,
        path, "".join(built.groups("")) if built else "",
        tags=tuple("-".join(n[:-4].split("-")[-3:]) for n in names if n.endswith(".whl")),
        origin=conda or own, where=where, url=url, row=row,
        vendor=bool(re.search(data("formats")["vendor"]["index"], url)),
        unhashed=tuple(n.rpartition("/")[2] for n in bare),
    )  # fmt: skip


def _choices(lock: Lock) -> Iterator[Choice]:
    walks = {"uv.lock": _of_uv, "pixi.lock": _of_pixi, "pyproject.toml": _of_manifest}
    for platform, name, packages in walks.get(lock.name, _by_marker)(lock):
        named: dict[str, list[Package]] = defaultdict(list)
        for package in packages:
            named[package.name].append(package.on(platform))
        if "torch" in named:
            yield Choice(platform, name, named)


def _of_uv(lock: Lock) -> Walk:
    default = at(lock.manifest, "tool.uv.default-groups") or ["dev"]
    served, barred = lock.doc.get("supported-markers", [""]), lock.doc.get("conflicts", [])
    roots = [p for p in lock.packages if {"editable", "virtual"} & set(p.row.get("source", ()))]
    for root in roots:
        grouped, more = (root.row.get(f"{kind}-dependencies", {}) for kind in ("dev", "optional"))
        for extra in ("", *more):
            own = {"package": root.name}
            without = [
                item for several in barred if own | {"extra": extra} in several for item in several
            ]
            groups = [g for g in grouped if (default == "all" or g in default)
                      and own | {"group": g} not in without]  # fmt: skip
            prefix = f"{len(root.name)}-{root.name}"
            active = {f"extra-{prefix}-{extra}", *(f"group-{prefix}-{g}" for g in groups)}
            needs = [*root.row.get("dependencies", ()), *more.get(extra, ())]
            needs += [need for group in groups for need in grouped[group]]
            for platform in data("formats")["platform"]:
                if any(_holds(lock, marker, platform) for marker in served):
                    yield platform, extra, _reached(lock, needs, platform, active)


def _reached(lock: Lock, needs: list[Table], platform: str, active: set[str]) -> list[Package]:
    """Return the packages that are required, directly or not."""
    named = defaultdict(list)
    for package in lock.packages:
        named[package.name].append(package)
    todo, found = list(needs), dict[str, dict[str, Package]]()
    while todo:
        need = todo.pop()
        asked = _holds(lock, need.get("marker"), platform, active)
        for package in named[need["name"]] if asked else ():
            row, parts = package.row, found.setdefault(package.where, {})
            if all(need.get(key, row.get(key)) == row.get(key) for key in ("version", "source")):
                for part in {"", *need.get("extra", ())} - parts.keys():
                    parts[part] = package
                    more = row.get("optional-dependencies", {}).get(part, ())
                    todo += more if part else row.get("dependencies", ())
    return [parts[""] for parts in found.values() if parts]


def _of_pixi(lock: Lock) -> Walk:
    named = {p["name"]: p.get("subdir", p["name"]) for p in lock.doc.get("platforms", ())}
    by_url = {p.row.get("conda") or p.row.get("pypi") or p.row.get("url"): p for p in lock.packages}
    for name, table in lock.doc.get("environments", {}).items():
        for platform, items in table["packages"].items():
            urls = [item.get("conda") or item.get("pypi") for item in items]
            if (found := named.get(platform, platform)) in data("formats")["platform"]:
                yield found, name, [by_url[url] for url in urls if url in by_url]


def _of_manifest(lock: Lock) -> Walk:
    """Send what is required to the index that ``tool.uv.sources`` names for it."""
    uv = at(lock.doc, "tool.uv") or {}
    urls = {index.get("name"): index["url"] for index in uv.get("index", ())}
    groups = uv.get("default-groups", ["dev"])
    for platform, extra, packages in _by_marker(lock):
        sent = {id(package): package for package in packages}
        for package in packages:
            several = uv.get("sources", {}).get(package.name, [])
            for source in several if isinstance(several, list) else [several]:
                group = source.get("group", groups[0])
                asked = source.get("extra", extra) == extra and group in groups
                if asked and _holds(lock, source.get("marker"), platform):
                    url = urls.get(source.get("index"), "")
                    built = _VENDOR.search(url)
                    sent[id(package)] = replace(package, vendor=bool(built), url=url,
                                                index=built[1] if built else "")  # fmt: skip
        if any(_holds(lock, marker, platform) for marker in uv.get("environments", [""])):
            yield platform, extra, list(sent.values())


def _by_marker(lock: Lock) -> Walk:
    extras = [p.row["extra"] for p in lock.packages if "extra" in p.row]
    for extra in dict.fromkeys(("", *extras, *(at(lock.doc, lock.form.get("extras", "-")) or ()))):
        for platform in data("formats")["platform"]:
            yield platform, extra, [
                p for p in lock.packages if p.row.get("extra", extra) == extra
                and any(_holds(lock, marker, platform, {extra}) for marker in _markers(p.row))
            ]  # fmt: skip


def _markers(row: Table) -> list[str]:
    marker = row.get("marker") or row.get("markers") or ("" if not row.get("optional") else {})
    return (
        list(marker.values()) if isinstance(marker, dict) else [marker]
    )  # by group in poetry.lock


def _holds(lock: Lock, marker: str | None, platform: str, active: set[str] = frozenset()) -> bool:  # type: ignore[assignment]
    """Whether a marker is true on a platform, for extras and groups as their tool writes them."""
    text = _EXTRA.sub(
        lambda m: f"os_name {'!=' if (m[2] in active) == (m[1] == '==') else '=='} ''", marker or ""
    )
    return not text or _evaluated(text, platform, lock.python, frozenset(active))


@cache
def _evaluated(marker: str, platform: str, python: str, active: frozenset[str]) -> bool:
    values: Any = {"python_version": python, "python_full_version": f"{python}.9", "extras": active}
    return Marker(marker).evaluate(values | data("formats")["platform"][platform], "lock_file")
