"""Native libraries that the libraries of an environment import and the loader would not find.

Windows reports "WinError 126" without the name of the DLL, and Linux the first missing library
only. Reading the imports of each ELF or PE file, as the loader does, names all of them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from provision.doctor.data import data
from provision.doctor.elf import BROKEN, Elf
from provision.environment.reading import list_names, read_text

if TYPE_CHECKING:
    from provision.doctor.environment import Environment
    from provision.environment.installed import InstalledDistribution
    from provision.host.model import Host

_XE = re.compile(r"xe_(linear|batch|addons)\S*\.(so|pyd)")
_LIBRARY = re.compile(r".+\.(so(\.\d+)*|dll|pyd)", re.IGNORECASE)
# What only torch defines: its namespaces as C++ writes them into names, and its stable C functions.
_OF_TORCH = re.compile(
    rb"_Z[A-Z]*(?:3c10|2at|5torch|6caffe2)[0-9IN]|aoti_torch_"
    rb"|torch_(?:call|library|list|get|set|new|delete)_"
)
_MOST = 400  # libraries to read, a bound for broken environments


class MissingLibrary(NamedTuple):
    """A library that is imported and not found, and the file name of one that imports it."""

    name: str
    wanted_by: str


class Imports(NamedTuple):
    """Libraries that one library imports, and its own search folders (RPATH, RUNPATH; ELF only)."""

    names: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def is_of(kind: str, library: str) -> bool:
    """Whether a library is of a kind: ``oneapi``, ``cuda``, ``driver``, ``glibc``, ``windows``."""
    patterns = data("packages")["library"][kind]
    return any(re.fullmatch(pattern, library, re.IGNORECASE) for pattern in patterns)


def missing_libraries(
    env: Environment, host: Host, *, root: Path = Path("/")
) -> list[MissingLibrary]:
    """Return the libraries that torch and its companions import and the loader would not find.

    The system's libraries are those of ``root``, and of the ``LD_LIBRARY_PATH`` of the host.
    """
    read = _pe_imports if env.windows else _elf_imports
    starts = sorted(_own_libraries(env))
    if not starts:
        return []
    finder = _Finder(env, host, root)
    queue, seen, missing = list(starts), set(starts), dict[str, str]()
    while queue and len(seen) < _MOST:
        path = queue.pop(0)
        imports = read(path)
        for name in imports.names:
            found = finder.find(name, path, imports.folders)
            if found is None:
                missing.setdefault(name, path.name)
            elif found not in seen and env.prefix in found.parents:
                seen.add(found)
                queue.append(found)
    return [MissingLibrary(name, wanted) for name, wanted in sorted(missing.items())]


def foreign_symbols(env: Environment) -> dict[InstalledDistribution, tuple[str, str]]:
    """Return the packages of which a library needs a symbol that this torch does not define.

    Each with the name of that library and the symbol. Python loads a library only if all are there.
    """
    torch = {path: elf for path in (env.site / "torch/lib").glob("*.so") if (elf := _elf(path))}
    if not {"libc10.so", "libtorch_cpu.so"} <= {path.name for path in torch}:
        return {}  # conda and Debian keep torch's libraries elsewhere
    on_demand = _on_demand()
    found: dict[InstalledDistribution, tuple[str, str]] = {}
    libraries = {
        (dist, dist.folder.parent / entry.path): None
        for several in env.distributions.values() for dist in several for entry in dist.entries
        if ".so" in entry.path and _LIBRARY.fullmatch(entry.path.rpartition("/")[2])
    }  # fmt: skip
    read = {path: (dist, elf) for dist, path in libraries if (elf := torch.get(path) or _elf(path))}
    for path, (dist, elf) in read.items():
        try:
            wanted = [] if on_demand.search(path.name) else sorted(elf.undefined(_OF_TORCH))
            lacking = [name for name in wanted if not any(e.defines(name) for e in torch.values())]
            # A package has libraries of its own, and may import those of another one.
            needed = elf.needed if lacking else ()
            others = [
                e for p, (d, e) in read.items() if lacking and (d is dist or p.name in needed)
            ]
            for name in (n for n in lacking if not any(e.defines(n) for e in others)):
                found.setdefault(dist, (path.name, name.decode("ascii", "replace")))
        except BROKEN:
            continue
    return found


def _elf(path: Path) -> Elf | None:
    try:
        return Elf(path)
    except BROKEN:
        return None


def _on_demand() -> re.Pattern[str]:
    return re.compile("|".join(data("packages")["folders"]["on_demand"]), re.IGNORECASE)


def _own_libraries(env: Environment) -> Iterator[Path]:
    on_demand = _on_demand()
    for place in data("packages")["folders"]["read"]:
        for name in list_names(env.site / place):
            if _LIBRARY.fullmatch(name) and not on_demand.search(name):
                yield env.site / place / name
    for name in list_names(env.site):
        if _XE.fullmatch(name):
            yield env.site / name


class _Finder:
    """Searches the folders of the loader, and those from which torch loads libraries itself."""

    def __init__(self, env: Environment, host: Host, root: Path) -> None:
        self._windows = env.windows
        self._present = self._index(env)
        if env.windows:  # since 3.8 Python does not search PATH for the DLLs of a module
            windir = os.environ.get("SYSTEMROOT")
            self._outside = [Path(windir) / "System32"] if windir else []
            return
        library_path = host.variables.get("LD_LIBRARY_PATH", "").split(":")
        self._outside = [Path(folder) for folder in library_path if folder]
        self._outside += [
            root / folder for folder in data("packages")["folders"]["system"]
        ] + _configured(root)

    def _index(self, env: Environment) -> dict[str, Path]:
        """Return the libraries in folders of the environment that torch or the loader searches."""
        found: dict[str, Path] = {}
        for base, place in data("packages")["folders"]["own"]:
            above: Path = getattr(env, base)
            for folder in sorted(above.glob(place)) if "*" in place else [above / place]:
                for name in list_names(folder):
                    found.setdefault(name.lower() if env.windows else name, folder / name)
        return found

    def find(self, name: str, wanted_by: Path, folders: Iterable[str]) -> Path | None:
        """Return the path of a library, its bare name if it is a part of the system, or None."""
        if self._windows:
            return self._find_dll(name, wanted_by)
        if is_of("glibc", name):
            return Path(name)
        origin = str(wanted_by.parent)
        expanded = [
            Path(f.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)) for f in folders
        ]
        for folder in (*expanded, *self._outside):
            if (folder / name).exists():
                return Path(os.path.normpath(folder / name))
        return self._present.get(name)

    def _find_dll(self, name: str, wanted_by: Path) -> Path | None:
        if is_of("windows", name):
            return Path(name)
        if name.lower() in self._present:
            return self._present[name.lower()]
        folders = (wanted_by.parent, *self._outside)
        return next((f / name for f in folders if (f / name).exists()), None)


def _elf_imports(path: Path) -> Imports:
    """Return the imports of an ELF file; none if it is not one, or broken."""
    with contextlib.suppress(*BROKEN):
        elf = Elf(path)
        return Imports(tuple(elf.needed), tuple(elf.folders))
    return Imports()


def _pe_imports(path: Path) -> Imports:
    """Return the DLLs that a PE file imports when it is loaded; none if it is not one."""
    import pefile  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            entry = pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]
            image.parse_data_directories(directories=[entry], import_dllnames_only=True)
            found = getattr(image, "DIRECTORY_ENTRY_IMPORT", [])
            return Imports(tuple(item.dll.decode("ascii", "replace") for item in found))
    except Exception:  # noqa: BLE001 - pefile raises errors of any type on garbage
        return Imports()


def _configured(root: Path) -> list[Path]:
    etc = root / "etc"
    files = [etc / "ld.so.conf"]
    files += [etc / "ld.so.conf.d" / name for name in list_names(etc / "ld.so.conf.d")]
    lines = (line for file in files for line in read_text(file).splitlines())
    return [root / line.strip().lstrip("/") for line in lines if line[:1] == "/"]
