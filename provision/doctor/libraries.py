"""Native libraries that the libraries of an environment import and the loader would not find.

Windows reports "WinError 126" without the name of the DLL, and Linux the first missing library
only. Reading the imports of each ELF or PE file, as the loader does, names all of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.limits import open_regular
from provision.environment.reading import list_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from provision.doctor.environment import Environment
    from provision.host.model import Host

# Folders, below site-packages, of the packages that fail this way. Only their libraries and what
# these import are read: an environment has thousands of compiled modules.
_PLACES = ("torch/lib", "torch/bin", "torch", "torchvision", "torchaudio", "torchaudio/lib",
           "intel_extension_for_pytorch/lib", "intel_extension_for_pytorch/bin",
           "bitsandbytes", "bigdl-core-xe", "oneccl_bindings_for_pytorch/lib")  # fmt: skip
_XE = re.compile(r"xe_(linear|batch|addons)\S*\.(so|pyd)")
_LIBRARY = re.compile(r".+\.(so(\.\d+)*|dll|pyd)", re.IGNORECASE)
# Libraries that are loaded on demand or by tests: what they import may be absent.
_ON_DEMAND = re.compile(
    r"libcaffe2_nvrtc|caffe2_nvrtc|_test\.so|torchbind_test|nvshmem|libbitsandbytes_"
    r"|backend_with_compiler|aoti_custom_ops|libtorch_nvshmem|libgfortran|torchcodec|image\.(so|pyd)"
    r"|libtorio|_torio|intel-ext-pt-gpu-bitsandbytes",
    re.IGNORECASE,
)
# Parts of glibc; the loader itself provides them, wherever they are.
_GLIBC = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|ld-linux-x86-64)\.so\.\d+"
)
# DLLs of Windows itself, named here so that an environment for Windows can be read on Linux.
_WINDOWS = re.compile(
    r"(api-ms-win-|ext-ms-)\S+|(kernel32|kernelbase|user32|gdi32|gdiplus|advapi32|shell32|ole32"
    r"|oleaut32|ws2_32|wsock32|ntdll|msvcrt|ucrtbase|rpcrt4|crypt32|bcrypt|bcryptprimitives|secur32"
    r"|shlwapi|psapi|version|winmm|dbghelp|iphlpapi|userenv|powrprof|setupapi|cfgmgr32|dxgi|d3d11"
    r"|d3d12|opengl32|imm32|comdlg32|comctl32|netapi32|mswsock|dnsapi|wintrust|ncrypt|pdh|wldap32"
    r"|synchronization|propsys|mpr|normaliz|winhttp|wininet|cabinet|msvcp_win|uxtheme|dwmapi"
    r"|python3\d*|vcomp140|msvcp140(_\d|_atomic_wait|_codecvt_ids)?|vcruntime140(_1)?|concrt140)\.dll",
    re.IGNORECASE,
)
_SYSTEM_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64", "lib",
                   "usr/lib", "usr/local/lib", "usr/local/lib64", "usr/lib/wsl/lib")  # fmt: skip
_MOST = 400  # libraries to read, a bound for broken environments


@dataclass(frozen=True, slots=True)
class MissingLibrary:
    """A library that is imported and not found.

    Attributes:
        name: For instance ``libsycl.so.8`` or ``uv.dll``.
        wanted_by: File name of a library that imports it.
    """

    name: str
    wanted_by: str


@dataclass(frozen=True, slots=True)
class Imports:
    """Libraries that one library imports, and its own search folders (RPATH, RUNPATH; ELF only)."""

    names: tuple[str, ...]
    folders: tuple[str, ...] = ()


def missing_libraries(
    env: Environment, host: Host, *, root: Path = Path("/")
) -> list[MissingLibrary]:
    """Return the libraries that torch and its companions import and the loader would not find.

    Args:
        env: The environment.
        host: The machine, for ``LD_LIBRARY_PATH``.
        root: The file system that holds the system's libraries.
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
        for name in imports.names if imports else ():
            found = finder.find(name, path, imports.folders if imports else ())
            if found is None:
                missing.setdefault(name, path.name)
            elif found not in seen and env.prefix in found.parents:
                seen.add(found)
                queue.append(found)
    return [MissingLibrary(name, wanted) for name, wanted in sorted(missing.items())]


def _own_libraries(env: Environment) -> Iterator[Path]:
    for place in _PLACES:
        for name in list_names(env.site / place):
            if _LIBRARY.fullmatch(name) and not _ON_DEMAND.search(name):
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
        self._outside += [root / folder for folder in _SYSTEM_FOLDERS] + _configured(root)

    def _index(self, env: Environment) -> dict[str, Path]:
        """Return the libraries in folders of the environment that torch or the loader searches.

        torch loads nvidia-* libraries by path before it needs them (``_preload_cuda_deps``), and
        adds its own folder and ``Library/bin`` to the DLL search (``torch/__init__.py``).
        """
        site, prefix = env.site, env.prefix
        folders = [site / "torch" / "lib", site / "torch" / "bin", prefix / "lib",
                   prefix / "Library" / "bin", prefix / "bin", prefix, prefix / "DLLs",
                   site / "intel_extension_for_pytorch" / "bin",
                   site / "intel_extension_for_pytorch" / "lib"]  # fmt: skip
        folders += sorted(site.glob("nvidia/*/lib")) + sorted(site.glob("nvidia/*/bin"))
        folders += sorted(site.glob("*.libs")) + sorted(site.glob("cusparselt/lib"))
        found: dict[str, Path] = {}
        for folder in folders:
            for name in list_names(folder):
                found.setdefault(name.lower() if env.windows else name, folder / name)
        return found

    def find(self, name: str, wanted_by: Path, folders: Iterable[str]) -> Path | None:
        """Return the path of a library, its bare name if it is a part of the system, or None."""
        if self._windows:
            return self._find_dll(name, wanted_by)
        if _GLIBC.fullmatch(name):
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
        if _WINDOWS.fullmatch(name):
            return Path(name)
        if name.lower() in self._present:
            return self._present[name.lower()]
        folders = (wanted_by.parent, *self._outside)
        return next((f / name for f in folders if (f / name).exists()), None)


def _elf_imports(path: Path) -> Imports | None:
    """Return the imports of an ELF file; None if it is not one, or broken."""
    from elftools.elf.dynamic import DynamicSegment  # noqa: PLC0415
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    try:
        with open_regular(path) as stream:
            for segment in ELFFile(stream).iter_segments("PT_DYNAMIC"):
                if isinstance(segment, DynamicSegment):
                    return _needed(segment)
    except Exception:  # noqa: BLE001 - pyelftools raises errors of any type on garbage
        return None
    return None


def _needed(segment: object) -> Imports:
    names, folders = [], []
    for tag in segment.iter_tags():  # type: ignore[attr-defined]
        if tag.entry.d_tag == "DT_NEEDED":
            names.append(str(tag.needed))
        elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
            value = tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath
            folders += [part for part in str(value).split(":") if part]
    return Imports(tuple(names), tuple(folders))


def _pe_imports(path: Path) -> Imports | None:
    """Return the DLLs that a PE file imports when it is loaded; None if it is not one."""
    import pefile  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        with pefile.PE(str(path), fast_load=True) as image:
            entry = pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]
            image.parse_data_directories(directories=[entry], import_dllnames_only=True)
            found = getattr(image, "DIRECTORY_ENTRY_IMPORT", [])
            return Imports(tuple(item.dll.decode("ascii", "replace") for item in found))
    except Exception:  # noqa: BLE001 - pefile raises errors of any type on garbage
        return None


def _configured(root: Path) -> list[Path]:
    folders = []
    for name in (
        "ld.so.conf",
        *(f"ld.so.conf.d/{n}" for n in list_names(root / "etc/ld.so.conf.d")),
    ):
        try:
            text = (root / "etc" / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        folders += [
            root / line.strip().lstrip("/") for line in text.splitlines() if line[:1] == "/"
        ]
    return folders
