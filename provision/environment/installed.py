"""Installed distributions and their RECORDs, read from disk: nothing of them is run or imported.

Any file may be absent, cut short or garbage: its property is then empty, and read when first used.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.core import limits
from provision.environment.reading import list_names, read_text
from provision.lockfile.wheel_record import RecordEntry, parse_record

# The part of a module's file name that names its Python; stable-ABI modules (.abi3.so) have none.
_COMPILED = re.compile(r"\.(?:cpython-|cp)3(\d+)t?-[\w-]+\.(?:so|pyd)$")


# Without slots: cached_property stores its value in the instance.
@dataclass(frozen=True)
class InstalledDistribution:
    """One distribution, its ``.dist-info`` folder and, which no installer records, its index."""

    name: str  # normalised; empty where the metadata cannot be read
    version: str
    folder: Path
    index: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def installer(self) -> str:
        """The tool that installed it, as its INSTALLER file says."""
        return read_text(self.folder / "INSTALLER").strip() or "an unknown tool"

    @cached_property
    def requires(self) -> tuple[str, ...]:
        """Its ``Requires-Dist`` lines."""
        requires = []
        for key, value in self._headers:
            if key == "Requires-Dist":
                requires.append(value)
        return tuple(requires)

    @cached_property
    def requires_python(self) -> str:
        """Its ``Requires-Python``, or ""."""
        return dict(reversed(self._headers)).get("Requires-Python", "")

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The tags of the wheel that it was installed from."""
        text = read_text(self.folder / "WHEEL")
        return tuple(re.findall(r"^Tag: (\S+)", text, re.MULTILINE))

    @cached_property
    def origin(self) -> str:
        """The URL of a direct installation (PEP 610); "" if it came from an index."""
        text = read_text(self.folder / "direct_url.json")
        url = re.search(r'"url": *"([^"]+)"', text)
        return url[1] if url else ""

    @cached_property
    def compiled_for(self) -> frozenset[str]:
        """Pythons that its compiled modules are for, such as ``3.11``; not stable-ABI ones."""
        return _pythons(entry.path for entry in self.entries)

    @property
    def parsed(self) -> Version | None:
        """The version in comparable form; None if it is not valid."""
        return parse_version(self.version)

    def is_before(self, version: str) -> bool:
        """Whether it is older than a version; False if either is not valid."""
        other = parse_version(version)
        return bool(self.parsed and other and self.parsed < other)

    @property
    def local(self) -> str:
        """The local part of the version, such as ``cu128``; "" if it has none."""
        return self.version.partition("+")[2]

    @property
    def minor(self) -> str:
        """The first two numbers of the version, such as ``2.9``."""
        release = self.version.partition("+")[0]
        return ".".join(release.split(".")[:2])

    @cached_property
    def _headers(self) -> list[tuple[str, str]]:
        return _headers(self.folder / "METADATA")

    @cached_property
    def entries(self) -> list[RecordEntry]:
        """The lines of its RECORD; none where it has no readable one."""
        try:
            return parse_record(limits.read_text(self.folder / "RECORD"))
        except (OSError, UnicodeDecodeError, csv.Error):
            return []


class EggInfo(InstalledDistribution):
    """A distribution with ``.egg-info``, of which neither files nor requirements are read."""

    requires = ()

    @cached_property
    def compiled_for(self) -> frozenset[str]:
        """Pythons that its compiled modules are for, found by looking at the module's folder."""
        module = self.name.replace("-", "_")
        if not module.isidentifier():
            return frozenset()
        folder = self.folder.parent / module
        return _pythons(map(str, folder.rglob("*.so")))

    @cached_property
    def _headers(self) -> list[tuple[str, str]]:
        return _headers(_pkg_info(self.folder))


def installed_distributions(site: Path) -> list[InstalledDistribution]:
    """Return every distribution that has a ``.dist-info`` folder, sorted by name."""
    distributions = []
    for folder in site.glob("*.dist-info"):
        name, version = _name_and_version(folder / "METADATA")
        distributions.append(InstalledDistribution(name, version, folder))
    return sorted(distributions, key=lambda dist: (dist.name, dist.folder.name))


def distributions_by_name(
    sites: Sequence[Path],
) -> dict[str, tuple[InstalledDistribution, ...]]:
    """Return what is installed by normalised name, ``.egg-info`` included, leftovers too.

    Without readable metadata the folder's name counts; an earlier folder hides a later one.
    """
    distributions: dict[str, tuple[InstalledDistribution, ...]] = {}
    for site in reversed(sites):
        distributions |= _by_name(site)
    return distributions


def distributions_in(folders: Iterable[str]) -> dict[str, str]:
    """Return the names of the distributions in some folders, each with its folder."""
    distributions = {}
    for folder in folders:
        for name in list_names(Path(folder)):
            if name.endswith(".dist-info"):
                distributions[distribution_name(name)] = folder
    return distributions


def distribution_name(folder: str) -> str:
    """Return the normalised name in the name of a ``.dist-info`` folder: ``a_b-1.0`` is ``a-b``."""
    # packaging's canonicalize_name (PEP 503), without its import: folders are only listed here.
    return re.sub(r"[-_.]+", "-", folder.partition("-")[0]).lower()


def name_of(requirement: str) -> str:
    """Return the normalised name in a requirement; empty if it is not one."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return canonicalize_name(match[0]) if match else ""


def parse_version(text: str) -> Version | None:
    """Return a version in comparable form, or None if it is not valid."""
    try:
        return Version(text)
    except ValueError:  # also of a number that is too long for Python
        return None


def _name_and_version(metadata: Path) -> tuple[str, str]:
    # Of a repeated field the first one counts.
    fields = dict(reversed(_headers(metadata)))
    return name_of(fields.get("Name", "")), fields.get("Version", "")


def _by_name(site: Path) -> dict[str, tuple[InstalledDistribution, ...]]:
    by_name: dict[str, tuple[InstalledDistribution, ...]] = {}
    for dist in installed_distributions(site):
        stem = dist.folder.name.removesuffix(".dist-info")
        name = dist.name or distribution_name(stem)
        version = dist.version or stem.partition("-")[2]
        named = replace(dist, name=name, version=version)
        by_name[name] = (*by_name.get(name, ()), named)
    for folder in site.glob("*.egg-info"):
        name, version = _name_and_version(_pkg_info(folder))
        name = name or distribution_name(folder.stem)
        by_name.setdefault(name, (EggInfo(name, version, folder),))
    return by_name


def _pkg_info(egg_info: Path) -> Path:
    return egg_info / "PKG-INFO" if egg_info.is_dir() else egg_info


def _headers(metadata: Path) -> list[tuple[str, str]]:
    """Return the header fields of a METADATA file; none if it cannot be read."""
    # An empty line ends the headers. One of blanks does not: it continues a licence.
    head = read_text(metadata).replace("\r\n", "\n").partition("\n\n")[0]
    fields = []
    for line in head.split("\n"):
        key, _, value = line.partition(":")
        fields.append((key, value.strip()))
    return fields


def _pythons(paths: Iterable[str]) -> frozenset[str]:
    matches = filter(None, map(_COMPILED.search, paths))
    return frozenset(f"3.{match[1]}" for match in matches)
