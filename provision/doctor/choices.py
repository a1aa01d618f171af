"""What one command installs from a file of a repository: by platform, and by extra."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from packaging.markers import Marker

from provision.core.platforms import PLATFORMS
from provision.doctor.repository import FORMATS, Package, RepositoryFile, Table, at
from provision.doctor.rules.requirements import requirement
from provision.doctor.unpinned import BRING_TORCH, NAMES, newest


class Choice(NamedTuple):
    """What one command installs on a platform; ``name`` is the extra, if any."""

    platform: str
    name: str
    packages: dict[str, list[Package]]

    @property
    def torch(self) -> Package:
        """Its torch, the first if there are several."""
        return self.packages["torch"][0]

    def __str__(self) -> str:
        extra = f" with {self.name}" if self.name else ""
        return f"{self.torch} on {self.platform}{extra}"


def choices(file: RepositoryFile) -> Iterator[Choice]:
    """Yield what can be installed from a file, where that has torch."""
    # Where a manifest sends torch to an index, only its lock says what comes of it.
    if at(file.document, "tool.uv.sources.torch"):
        return
    resolve = _of_uv if file.name == "uv.lock" else _by_marker
    served = file.document.get("supported-markers", [""])
    for platform in FORMATS["default_build"]:
        if not any(_holds(marker, platform, file.python) for marker in served):
            continue
        for extra, packages in resolve(file, platform):
            by_name: dict[str, list[Package]] = defaultdict(list)
            for package in packages:
                by_name[package.name].append(package)
            _add_unpinned(by_name)
            if "torch" in by_name:
                for name, several in by_name.items():
                    by_name[name] = [package.on(platform) for package in several]
                yield Choice(platform, extra, by_name)


def _add_unpinned(packages: dict[str, list[Package]]) -> None:
    """Fill in what an installer takes beside IPEX or ipex-llm, which a file may not say."""
    first = next((name for name in BRING_TORCH if name in packages), None)
    if first is None:
        return
    if "torch" not in packages:
        where = f"{packages[first][0].where}, with {first}"
        brought = replace(packages[first][0], name="torch", version="", where=where)
        packages["torch"] = [replace(brought, line="torch", requires=())]
    for name in NAMES:
        if name in packages:
            packages[name] = [_with_newest(package) for package in packages[name]]


def _with_newest(package: Package) -> Package:
    wanted = requirement(package.line.partition(" --")[0])
    if wanted is None or package.version:
        return package
    return replace(
        package,
        version=newest(package.name, wanted.specifier),
        requires=tuple(FORMATS["needs"].get(package.name, ())),
        where=f"{package.where} (the newest)",
    )


def _of_uv(file: RepositoryFile, platform: str) -> Iterator[tuple[str, list[Package]]]:
    """Yield the packages of each extra of the projects that a uv.lock is of."""
    for root in file.packages:
        source = root.row.get("source", {})
        if "editable" not in source and "virtual" not in source:
            continue
        for extra in ("", *root.row.get("optional-dependencies", ())):
            need = {"name": root.name, "source": source, "extra": [extra]}
            extra_name = f"extra-{len(root.name)}-{root.name}-{extra}"
            yield extra, _reached(file, need, platform, frozenset({extra_name}))


def _reached(
    file: RepositoryFile, first: Table, platform: str, extras: frozenset[str]
) -> list[Package]:
    """Return the packages that a need of a uv.lock brings, directly or not."""
    by_name: dict[str, list[Package]] = defaultdict(list)
    for package in file.packages:
        by_name[package.name].append(package)
    needs = [first]
    reached = dict[tuple[str, str], Package]()
    while needs:
        need = needs.pop()
        if not _holds(need.get("marker", ""), platform, file.python, extras):
            continue
        for package in by_name[need["name"]]:
            if not _is_meant(package, need):
                continue
            optional = package.row.get("optional-dependencies", {})
            for part in {"", *need.get("extra", ())}:
                if (package.where, part) not in reached:
                    reached[package.where, part] = package
                    required = package.row.get("dependencies", ())
                    needs += optional.get(part, ()) if part else required
    return [package for (_, part), package in reached.items() if not part]


def _is_meant(package: Package, need: Table) -> bool:
    """Whether a need, which names what several packages of a name differ in, is of this one."""
    same_version = need.get("version") in (None, package.row.get("version"))
    same_source = need.get("source") in (None, package.row.get("source"))
    return same_version and same_source


def _by_marker(
    file: RepositoryFile, platform: str
) -> Iterator[tuple[str, list[Package]]]:
    """Yield the packages of each extra where each package has its own marker."""
    for extra in ("", *(at(file.document, file.form.get("extras", "")) or ())):
        extras = frozenset({extra})
        packages = []
        for package in file.packages:
            markers = _markers(package.row)
            if any(_holds(m, platform, file.python, extras) for m in markers):
                packages.append(package)
        yield extra, packages


def _markers(row: Table) -> list[str]:
    marker = row.get("marker") or row.get("markers")
    if isinstance(marker, dict):  # by group, as poetry writes it
        return list(marker.values())
    if not marker and row.get("optional"):
        return []
    return [marker or ""]


@cache
def _holds(
    marker: str, platform: str, python: str, extras: frozenset[str] = frozenset()
) -> bool:
    """Whether a marker is true on a platform, for extras as their tool writes them."""
    if not marker:
        return True
    # packaging knows one extra; a set of them is asked by `in`.
    text = re.sub(FORMATS["pattern"]["extra_is"], r"\1 in extras", marker)
    text = re.sub(FORMATS["pattern"]["extra_is_not"], r"\1 not in extras", text)
    values: dict[str, Any] = {
        **PLATFORMS[platform].markers,
        "python_version": python,
        "python_full_version": f"{python}.9",
        "extras": extras,
    }
    return Marker(text).evaluate(values, "lock_file")
