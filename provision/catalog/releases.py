"""The releases of a distribution that a catalog index has, and what rules each out for a machine."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.digest import entries, is_of
from provision.catalog.snapshot import Wheel
from provision.core.errors import damage_in
from provision.core.project import fact
from provision.core.wheel_name import NULL
from provision.lockfile.tags import best_wheel
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class CatalogRelease:
    """A release of a catalog index."""

    version: Version
    requires: tuple[str, ...] | None  # of the wheel for a machine; None where not known
    lacks: str  # why it cannot be locked for that machine; "" where it can


def catalog_wheels(
    folder: Path, index: str, names: Collection[str]
) -> tuple[Wheel, ...]:
    """Return the wheels of some distributions; the others, which are many, are not validated."""
    path = fact(folder, f"{index}.json")
    listed = entries(path, "files", is_of(names))
    with damage_in(f"the catalog file {path}", "restore it from the last commit"):
        return tuple(Wheel.model_validate_json(json.dumps(entry)) for entry in listed)


def taken_variant(name: str, labels: Collection[str], target: Target) -> str:
    """Return the label of the wheel variant that a target takes of a distribution, "" for none.

    By default a wheel that is no variant, or where there is none, that without properties.
    """
    default = "" if "" in labels else NULL
    return target.pip.variants.get(name, default)


def releases_of(
    name: str, wheels: Iterable[Wheel], target: Target
) -> list[CatalogRelease]:
    """Return the releases of a distribution, the newest first."""
    by_version: dict[Version, list[Wheel]] = defaultdict(list)
    labels = set()
    for wheel in wheels:
        if wheel.name == name:
            by_version[Version(wheel.version)].append(wheel)
            if not wheel.lacks:
                labels.add(wheel.variant)
    label = taken_variant(name, labels, target)
    releases = []
    for version in sorted(by_version, reverse=True):
        releases.append(_release(version, by_version[version], label, target))
    return releases


def _release(
    version: Version, wheels: Sequence[Wheel], label: str, target: Target
) -> CatalogRelease:
    """Return what a target can do with a release, by the wheels that the catalog has of it."""
    ours = [wheel for wheel in wheels if wheel.variant == label]
    if not ours:
        others = {wheel.variant or "no variant" for wheel in wheels}
        kind = f"variant {label}" if label else "wheel without a variant"
        lacks = f"it has no {kind}, but {', '.join(sorted(others))}"
        return CatalogRelease(version, None, lacks)
    by_file = {wheel.served_name: wheel for wheel in ours}
    whole = {name: wheel for name, wheel in by_file.items() if not wheel.lacks}
    best = best_wheel(whole, *target.machine)
    if best is None:
        lacks = f"it has no wheel for {target.platform} and Python {target.python}"
        if listed := best_wheel(by_file, *target.machine):
            lacks = f"{listed}: {by_file[listed].lacks}"
        return CatalogRelease(version, None, lacks)
    python = whole[best].requires_python or ""
    if not SpecifierSet(python).contains(target.python_version, prereleases=True):
        return CatalogRelease(version, None, f"it requires Python {python}")
    return CatalogRelease(version, whole[best].requires_dist, "")
