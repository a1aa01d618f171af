"""Native libraries that an environment needs and the loader misses; see ``packages.toml``."""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pefile  # type: ignore[import-untyped]

from provision.doctor.context import MissingLibrary
from provision.doctor.data import data, is_library_of
from provision.doctor.elf import BROKEN, Elf
from provision.doctor.environment import Environment
from provision.environment.reading import read_text
from provision.host.model import Host

_LIBRARY = re.compile(r".+\.(so(\.\d+)*|dll|pyd)", re.IGNORECASE)
_MOST = 400  # libraries to read, a bound for broken environments


def missing_libraries(
    env: Environment, host: Host, *, root: Path = Path("/")
) -> list[MissingLibrary]:
    """Return what torch and its companions import and the loader, below ``root``, does not find."""
    finder = _Finder(env, host, root)
    queue = _loaded_first(env)
    seen = set(queue)
    missing = dict[str, MissingLibrary]()
    while queue and len(seen) < _MOST:
        path = queue.pop(0)
        names, folders = _imports(path, windows=env.windows)
        for name in names:
            library = finder.find(name, folders)
            if library is None:
                missing.setdefault(name, MissingLibrary(name, path.name))
            elif library not in seen and env.prefix in library.parents:
                seen.add(library)
                queue.append(library)
    return sorted(missing.values())


def _loaded_first(env: Environment) -> list[Path]:
    """The libraries of torch and its companions, but not those that are loaded on demand."""
    folders = data("packages")["folders"]
    on_demand = re.compile("|".join(folders["on_demand"]), re.IGNORECASE)
    libraries = []
    for place in folders["read"]:
        for path in sorted(env.site.glob(place)):
            if _LIBRARY.fullmatch(path.name) and not on_demand.search(path.name):
                libraries.append(path)
    return libraries


class _Finder:
    """Searches the folders of the loader, and those from which torch loads libraries itself."""

    def __init__(self, env: Environment, host: Host, root: Path) -> None:
        self._windows = env.windows
        self._present = dict[str, Path]()
        for base, place in data("packages")["folders"]["own"]:
            for path in sorted(getattr(env, base).glob(place)):
                self._present.setdefault(self._key(path.name), path)
        if env.windows:  # a driver puts its libraries there
            self._system = [Path(os.environ.get("SYSTEMROOT", root), "System32")]
        else:
            self._system = _loader_folders(host, root)

    def _key(self, name: str) -> str:
        return name.lower() if self._windows else name

    def find(self, name: str, folders: Sequence[Path]) -> Path | None:
        """Return the path of a library, its bare name if it is a part of the system, or None."""
        if is_library_of("windows" if self._windows else "glibc", name):
            return Path(name)
        for folder in (*folders, *self._system):
            if (folder / name).exists():
                return Path(os.path.normpath(folder / name))
        return self._present.get(self._key(name))


def _loader_folders(host: Host, root: Path) -> list[Path]:
    """The folders that Linux's loader searches, in its order."""
    variable = host.variables.get("LD_LIBRARY_PATH", "").split(":")
    folders = [Path(folder) for folder in variable if folder]
    system = list[str](data("packages")["folders"]["system"])
    etc = root / "etc"
    for path in (*etc.glob("ld.so.conf"), *etc.glob("ld.so.conf.d/*")):
        for line in read_text(path).splitlines():
            if line.startswith("/"):
                system.append(line.strip())
    for folder in system:
        folders.append(root / folder.lstrip("/"))
    return folders


def _imports(path: Path, *, windows: bool) -> tuple[list[str], list[Path]]:
    """Return the libraries that a file imports, and where its loader looks first."""
    with contextlib.suppress(*BROKEN):
        elf = Elf(path)
        origin = re.compile(r"\$ORIGIN|\$\{ORIGIN\}")
        folder = str(path.parent)
        return elf.needed, [Path(origin.sub(folder, text)) for text in elf.folders]
    if windows:
        # Since 3.8 Python does not search PATH for the DLLs of a module.
        return _imported_dlls(path), [path.parent]
    return [], []


def _imported_dlls(path: Path) -> list[str]:
    """Return the DLLs that a PE file imports when it is loaded; none if it is not one."""
    try:
        with pefile.PE(str(path), fast_load=True) as image:
            entry = pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]
            image.parse_data_directories(directories=[entry], import_dllnames_only=True)
            imports = getattr(image, "DIRECTORY_ENTRY_IMPORT", [])
            return [item.dll.decode("ascii", "replace") for item in imports]
    except Exception:  # noqa: BLE001 - pefile raises errors of any type on garbage
        return []
