"""Native libraries that those of an environment import and the loader, which names one, misses."""

import contextlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from provision.doctor.data import data
from provision.doctor.elf import BROKEN, Elf
from provision.doctor.environment import Environment
from provision.environment.installed import InstalledDistribution
from provision.environment.reading import read_text
from provision.host.model import Host

_LIBRARY = re.compile(r".+\.(so(\.\d+)*|dll|pyd)", re.IGNORECASE)
_MOST = 400  # libraries to read, a bound for broken environments


class MissingLibrary(NamedTuple):
    """A library that is imported and not found, and the file name of one that imports it."""

    name: str
    wanted_by: str


def is_of(kind: str, library: str) -> bool:
    """Whether a library is of a kind: ``oneapi``, ``cuda``, ``driver``, ``glibc``, ``windows``."""
    patterns = data("packages")["library"][kind]
    return any(re.fullmatch(pattern, library, re.IGNORECASE) for pattern in patterns)


def missing_libraries(
    env: Environment, host: Host, *, root: Path = Path("/")
) -> list[MissingLibrary]:
    """Return what torch and its companions import and the loader, below ``root``, does not find."""
    places = data("packages")["folders"]["read"]
    paths = (path for place in places for path in sorted(env.site.glob(place)))
    queue = [
        p
        for p in paths
        if _LIBRARY.fullmatch(p.name) and not _on_demand().search(p.name)
    ]
    finder = _Finder(env, host, root)
    seen, missing = set(queue), dict[str, str]()
    while queue and len(seen) < _MOST:
        path = queue.pop(0)
        elf, pe = _elf(path), _pe_imports(path) if env.windows else ([], [])
        names, folders = (elf.needed, elf.folders) if elf else pe
        for name in names:
            found = finder.find(name, path, folders)
            if found is None:
                missing.setdefault(name, path.name)
            elif found not in seen and env.prefix in found.parents:
                seen.add(found)
                queue.append(found)
    return [MissingLibrary(name, wanted) for name, wanted in sorted(missing.items())]


def _compiled(env: Environment) -> dict[Path, tuple[InstalledDistribution, Elf]]:
    # The libraries that its packages recorded.
    dists = [dist for several in env.distributions.values() for dist in several]
    files = [
        (dist, dist.folder.parent / line.path)
        for dist in dists
        for line in dist.entries
        if ".so" in line.path and _LIBRARY.fullmatch(line.path)
    ]
    return {path: (dist, elf) for dist, path in files if (elf := _elf(path))}


def foreign_symbols(env: Environment) -> dict[InstalledDistribution, tuple[str, str]]:
    """Return the packages with a library that needs a symbol which this torch lacks, and both."""
    read = _compiled(env)
    # Backwards: libtorch_cpu.so, which defines the most, comes before the small ones.
    own = {
        p.name: lib
        for p in sorted(env.site.glob("torch/lib/*.so"))[::-1]
        if (lib := _elf(p))
    }
    # Conda and Debian keep torch's libraries elsewhere.
    torch = own.values() if {"libc10.so", "libtorch_cpu.so"} <= own.keys() else ()
    on_demand = _on_demand()
    has = cache(lambda name: any(library.defines(name) for library in torch))
    found: dict[InstalledDistribution, tuple[str, str]] = {}
    for path, (dist, elf) in read.items():
        with contextlib.suppress(*BROKEN):
            wanted = (
                ()
                if not torch or on_demand.search(path.name)
                else sorted(elf.undefined())
            )
            lacking = [name for name in wanted if not has(name)]
            # A package has libraries of its own, and may import those of another one.
            needed = elf.needed if lacking else ()
            near = ((p, *both) for p, both in read.items() if lacking)
            others = [e for p, d, e in near if d is dist or p.name in needed]
            for name in (n for n in lacking if not any(e.defines(n) for e in others)):
                found.setdefault(dist, (path.name, name.decode("ascii", "replace")))
    return found


def _elf(path: Path) -> Elf | None:
    with contextlib.suppress(*BROKEN):
        return Elf(path)
    return None


def _on_demand() -> re.Pattern[str]:
    return re.compile("|".join(data("packages")["folders"]["on_demand"]), re.IGNORECASE)


class _Finder:
    """Searches the folders of the loader, and those from which torch loads libraries itself."""

    def __init__(self, env: Environment, host: Host, root: Path) -> None:
        folders = data("packages")["folders"]
        self._windows = env.windows
        self._present: dict[str, Path] = {}
        for base, place in folders["own"]:
            for path in sorted(getattr(env, base).glob(place)):
                self._present.setdefault(
                    path.name.lower() if env.windows else path.name, path
                )
        if (
            env.windows
        ):  # since 3.8 Python does not search PATH for the DLLs of a module
            windir = os.environ.get("SYSTEMROOT")
            self._outside = [Path(windir) / "System32"] if windir else []
            return
        library_path = host.variables.get("LD_LIBRARY_PATH", "").split(":")
        etc = root / "etc"
        files = [*etc.glob("ld.so.conf"), *etc.glob("ld.so.conf.d/*")]
        lines = [
            line.strip() for path in files for line in read_text(path).splitlines()
        ]
        system = [*folders["system"], *(line for line in lines if line.startswith("/"))]
        first = [Path(os.path.normpath(folder)) for folder in library_path if folder]
        self._outside = first + [root / folder.lstrip("/") for folder in system]

    def find(self, name: str, wanted_by: Path, folders: Iterable[str]) -> Path | None:
        """Return the path of a library, its bare name if it is a part of the system, or None."""
        if is_of("windows" if self._windows else "glibc", name):
            return Path(name)
        if self._windows and (present := self._present.get(name.lower())):
            return present
        origin = str(wanted_by.parent)
        own = [
            f.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for f in folders
        ]
        for folder in (*map(Path, own), *self._outside):
            if (folder / name).exists():
                return Path(os.path.normpath(folder / name))
        return self._present.get(name)


def _pe_imports(path: Path) -> tuple[list[str], list[str]]:
    """Return the DLLs that a PE file imports when it is loaded; none if it is not one."""
    import pefile  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            entry = pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]
            image.parse_data_directories(directories=[entry], import_dllnames_only=True)
            found = getattr(image, "DIRECTORY_ENTRY_IMPORT", [])
            return [item.dll.decode("ascii", "replace") for item in found], [
                str(path.parent)
            ]
    except Exception:  # noqa: BLE001 - pefile raises errors of any type on garbage
        return [], []
