"""What one command installs from a file of a repository: by platform, and by extra."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from packaging.markers import Marker

from provision.core.platforms import PLATFORMS
from provision.doctor.repository import (
    FORMATS,
    Package,
    RepositoryFile,
    Table,
    at,
    requirements_of,
)
from provision.doctor.rules.requirements import pinned, requirement
from provision.doctor.unpinned import BRING_TORCH, NAMES, newest


class Choice(NamedTuple):
    """What one command installs on a platform; ``extra`` may be ""."""

    platform: str
    extra: str
    packages: dict[str, list[Package]]

    @property
    def torch(self) -> Package:
        """Its torch, the first if there are several."""
        return self.packages["torch"][0]

    def __str__(self) -> str:
        extra = f" with {self.extra}" if self.extra else ""
        return f"{self.torch} on {self.platform}{extra}"


def choices(file: RepositoryFile) -> Iterator[Choice]:
    """Yield what can be installed from a file, where that has torch."""
    # Where a manifest sends torch to an index, only its lock says what comes of it.
    if at(file.document, "tool.uv.sources.torch"):
        return
    resolve = _of_uv if file.name == "uv.lock" else _by_marker
    # Of uv.lock and of pylock.toml.
    supported = file.document.get("supported-markers")
    markers = supported or file.document.get("environments") or [""]
    for platform in FORMATS["default_build"]:
        if file.platform not in ("", platform):
            continue
        if not any(_holds(marker, platform, file.python) for marker in markers):
            continue
        for extra, packages in resolve(file, platform):
            by_name = _by_name(packages)
            _add_unpinned(by_name)
            if "torch" not in by_name:
                continue
            for name, dists in by_name.items():
                by_name[name] = [package.on(platform) for package in dists]
            yield Choice(platform, extra, by_name)


def _by_name(packages: Sequence[Package]) -> dict[str, list[Package]]:
    by_name: dict[str, list[Package]] = defaultdict(list)
    for package in packages:
        by_name[package.name].append(package)
    return by_name


def _add_unpinned(packages: dict[str, list[Package]]) -> None:
    """Fill in what an installer takes beside IPEX or ipex-llm, which a file may not say."""
    brings_torch = [name for name in BRING_TORCH if name in packages]
    if not brings_torch:
        return
    if "torch" not in packages:
        packages["torch"] = [_brought(packages, brings_torch)]
    for name in NAMES:
        if name in packages:
            packages[name] = [_with_newest(package) for package in packages[name]]


def _brought(packages: dict[str, list[Package]], names: Sequence[str]) -> Package:
    """Return the torch that one of some packages pins, or else any."""
    first, version = packages[names[0]][0], ""
    for name in names:
        for package in packages[name]:
            for pin in pinned(package, "torch") if "[xpu]" in package.line else ():
                first, version = package, pin
    where = f"{first.where}, with {first.name}"
    torch = replace(first, name="torch", version=version, line="torch", where=where)
    return replace(torch, requires=())


def _with_newest(package: Package) -> Package:
    wanted = requirement(package.line.partition(" --")[0])
    if wanted is None or package.version:
        return package
    version = newest(package.name, wanted.specifier)
    where = f"{package.where} (the newest)"
    requires = requirements_of(package.name, version)
    return replace(package, version=version, requires=requires, where=where)


def _of_uv(file: RepositoryFile, platform: str) -> Iterator[tuple[str, list[Package]]]:
    """Yield the packages of each extra of the projects that a uv.lock is of."""
    for root in file.packages:
        source = root.row.get("source", {})
        if "editable" not in source and "virtual" not in source:
            continue
        for extra in ("", *root.row.get("optional-dependencies", ())):
            need = {"name": root.name, "source": source, "extra": [extra]}
            marked = f"extra-{len(root.name)}-{root.name}-{extra}"  # as uv writes it
            yield extra, _reached(file, need, platform, marked)


def _reached(
    file: RepositoryFile, first: Table, platform: str, extra: str
) -> list[Package]:
    """Return the packages that a need of a uv.lock installs, directly or not."""
    by_name = _by_name(file.packages)
    needs = [first]
    reached = set()
    packages = []
    while needs:
        need = needs.pop()
        if not _holds(need.get("marker", ""), platform, file.python, extra):
            continue
        for package in by_name[need["name"]]:
            if not _is_meant(package, need):
                continue
            optional = {"": package.row.get("dependencies", ())}
            optional |= package.row.get("optional-dependencies", {})
            for part in {"", *need.get("extra", ())}:
                if (package.where, part) in reached:
                    continue
                reached.add((package.where, part))
                needs += optional.get(part, ())
                if not part:
                    packages.append(package)
    return packages


def _is_meant(package: Package, need: Table) -> bool:
    """Whether a need, which names what several packages of a name differ in, is of this one."""
    keys = ("version", "source")
    return all(need.get(key) in (None, package.row.get(key)) for key in keys)


def _by_marker(
    file: RepositoryFile, platform: str
) -> Iterator[tuple[str, list[Package]]]:
    """Yield the packages of each extra where each package has its own marker."""
    parts = dict.fromkeys(package.part for package in file.packages)
    for extra in dict.fromkeys(["", *file.document.get("extras", ()), *parts]):
        packages = []
        for package in file.packages:
            if package.part not in ("", extra):
                continue
            markers = _markers(package.row)
            if any(_holds(m, platform, file.python, extra) for m in markers):
                packages.append(package)
        yield extra, packages


def _markers(row: Table) -> list[str]:
    marker = row.get("marker") or row.get("markers")
    if isinstance(marker, dict):  # by group, as poetry writes it
        return list(marker.values())
    if row.get("optional") and not marker:
        return []
    return [marker or ""]


@cache
def _holds(marker: str, platform: str, python: str, extra: str = "") -> bool:
    """Whether a marker is true on a platform, for an extra as its tool writes it."""
    values: dict[str, str | frozenset[str]] = {
        **PLATFORMS[platform].markers,
        "python_version": python,
        "python_full_version": f"{python}.9",
        "extra": extra,
        "extras": frozenset({extra}),
    }
    return not marker or Marker(marker).evaluate(values, "lock_file")
