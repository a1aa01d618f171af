"""The distributions of an environment, with what their metadata says, broken ones too."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.environment.installed import InstalledDistribution, installed_distributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packaging.version import Version

_READ = 1 << 20
_COMPILED = re.compile(r"\.(?:cpython-|cp)3(\d+)t?-[\w-]+\.(?:so|pyd)$")


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution.

    Attributes:
        name: Normalised.
        version: As its metadata writes it, with the local part.
        folder: Its ``.dist-info`` folder.
        requires: Its ``Requires-Dist`` lines.
        requires_python: Its ``Requires-Python``, or "".
        tags: The tags of the wheel that it came from.
        origin: The URL that it was installed from, where no index chose it.
        minors: Pythons that its compiled modules are for, such as ``3.11``; not stable-ABI ones.
        gone: Top-level modules that its RECORD names and that are not there; None without RECORD.
    """

    name: str
    version: str
    folder: Path
    requires: tuple[str, ...] = ()
    requires_python: str = ""
    tags: tuple[str, ...] = ()
    origin: str = ""
    minors: frozenset[str] = frozenset()
    gone: tuple[str, ...] | None = ()

    @property
    def parsed(self) -> Version | None:
        """The version as a comparable one; None if it is none."""
        return parse_version(self.version)

    def is_before(self, version: str) -> bool:
        """Whether it is older than a version; one whose own version is none is not."""
        other = parse_version(version)
        return bool(self.parsed and other and self.parsed < other)

    @property
    def local(self) -> str:
        """The local part of the version, such as ``cu128``; "" if it has none."""
        return self.version.partition("+")[2]

    @property
    def minor(self) -> str:
        """The first two numbers of the version, such as ``2.9``."""
        return ".".join(self.version.split(".")[:2])


def distributions(sites: Sequence[Path]) -> dict[str, tuple[Distribution, ...]]:
    """Return what is installed by normalised name; leftovers make more than one of a name.

    What lies in an earlier folder hides what lies in a later one.
    """
    found: dict[str, tuple[Distribution, ...]] = {}
    for site in reversed(sites):
        found |= _distributions(site)
    return found


def _distributions(site: Path) -> dict[str, tuple[Distribution, ...]]:
    found: dict[str, list[Distribution]] = {}
    for installed in installed_distributions(site):
        name = installed.name or name_of(installed.folder.name)
        found.setdefault(name, []).append(_distribution(installed, name, site))
    for path in site.glob("*.egg-info"):
        egg = _egg(path, site)
        found.setdefault(egg.name, [egg])
    return {name: tuple(several) for name, several in found.items()}


def _egg(path: Path, site: Path) -> Distribution:
    """Return what an ``.egg-info`` tells, as Debian's packages and old installers leave it."""
    fields = _fields(read_text(path / "PKG-INFO" if path.is_dir() else path))
    told = {key: value for key, _, value in fields}
    name = name_of(told.get("Name", path.stem))
    module = name.replace("-", "_")
    files = map(str, (site / module).rglob("*.so")) if module.isidentifier() else ()
    return Distribution(
        name=name,
        version=told.get("Version", ""),
        folder=path,
        requires_python=told.get("Requires-Python", ""),
        minors=_minors(files),
    )


def _fields(metadata: str) -> list[tuple[str, str, str]]:
    head = metadata.replace("\r\n", "\n").partition("\n\n")[0]
    return [line.partition(": ") for line in head.splitlines()]


def _minors(files: Iterable[str]) -> frozenset[str]:
    return frozenset(f"3.{match[1]}" for path in files if (match := _COMPILED.search(path)))


def _distribution(installed: InstalledDistribution, name: str, site: Path) -> Distribution:
    fields = _fields(read_text(installed.folder / "METADATA"))
    wheel = read_text(installed.folder / "WHEEL")
    origin = re.search(r'"url": *"([^"]+)"', read_text(installed.folder / "direct_url.json"))
    files = [file.path for file in installed.files() or ()]
    return Distribution(
        name=name,
        version=installed.version
        or installed.folder.name.removesuffix(".dist-info").partition("-")[2],
        folder=installed.folder,
        requires=tuple(value for key, _, value in fields if key == "Requires-Dist"),
        requires_python=next((value for key, _, value in fields if key == "Requires-Python"), ""),
        tags=tuple(re.findall(r"^Tag: (\S+)", wheel, re.MULTILINE)),
        origin=origin[1] if origin else "",
        minors=_minors(files),
        gone=_gone(installed, files, site),
    )


def _gone(
    installed: InstalledDistribution, files: Sequence[str], site: Path
) -> tuple[str, ...] | None:
    if not (installed.folder / "METADATA").is_file():
        return None
    if not files:
        # Debian and conda leave RECORD out of some packages; their INSTALLER tells.
        return None if read_text(installed.folder / "INSTALLER").strip() in ("pip", "uv") else ()
    code = (path for path in files if path.endswith((".py", ".so", ".pyd")))
    tops = dict.fromkeys(path.split("/")[0] for path in code)
    modules = (top for top in tops if top.partition(".")[0].isidentifier() and top != "__pycache__")
    return tuple(top for top in modules if not (site / top).exists())


def distributions_in(folders: Iterable[str]) -> dict[str, str]:
    """Return the distributions that lie in folders, each with its folder."""
    return {
        name_of(name): folder
        for folder in folders
        for name in list_names(Path(folder))
        if name.endswith(".dist-info")
    }


def name_of(folder: str) -> str:
    """Return the distribution's name that the name of a ``.dist-info`` folder tells."""
    return re.sub(r"[-_.]+", "-", folder.partition("-")[0]).lower()


def parse_version(text: str) -> Version | None:
    """Return a version as a comparable one, or None if it is none."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - a log needs it not

    try:
        return Version(text)
    except InvalidVersion:
        return None


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names, not paths
    except (OSError, ValueError):
        return []


def read_text(path: Path) -> str:
    """Return the first megabyte of a file as text; "" if it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(_READ).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
