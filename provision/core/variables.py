"""The variables that a process gets: a build's by an allow-list, a user's program's by a deny-list.

A verdict must not depend on a stray setting, so builds and checks get only what is known. A
user's own program gets the user's own variables, except those that replace what it loads.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from provision.core.errors import UsageError
from provision.core.prefix import scripts_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

# What a process needs to find its home, its temporary folder and its language. Every other variable
# is dropped: a deny-list would miss the next one that changes what a tool installs.
_KEPT = frozenset({
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "TMP", "TEMP",
    "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "COLUMNS", "NO_COLOR", "CI",
    "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "USERNAME",
    "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE", "WINEPREFIX", "WINEDEBUG", "WINEDLLOVERRIDES",
    # Inductor's search for Visual Studio starts in the 32-bit folder (_inductor/cpp_builder.py).
    "PROGRAMFILES(X86)", "PROGRAMW6432",
})  # fmt: skip
# Read on purpose: how this machine reaches a network, which of its devices it was given, and where
# uv keeps its cache (hashes make its content irrelevant).
_NETWORK = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                      "NO_PROXY", "UV_PYTHON_INSTALL_MIRROR"})  # fmt: skip
# A selector names devices by their number, so what decides the numbering is kept with it: without
# CUDA_DEVICE_ORDER=PCI_BUS_ID, CUDA_VISIBLE_DEVICES=1 can be another card than the caller meant.
_MACHINE = frozenset({
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK", "ZE_FLAT_DEVICE_HIERARCHY",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    # The daemon that shares a card in exclusive compute mode; without it the card refuses work.
    "CUDA_MPS_PIPE_DIRECTORY",
    "UV_CACHE_DIR",
})  # fmt: skip
# Where the compiler of this machine is. torch.compile and Triton need one; an installation does
# not, as only wheels are installed. cl.exe finds its headers and libraries in no other way.
_COMPILER = frozenset({
    "CC", "CXX", "INCLUDE", "LIB", "LIBPATH", "VSINSTALLDIR", "VCINSTALLDIR", "VCTOOLSINSTALLDIR",
    "WINDOWSSDKDIR", "WINDOWSSDKVERSION", "UNIVERSALCRTSDKDIR", "UCRTVERSION",
    "VSCMD_ARG_TGT_ARCH",
    # Triton looks for the headers of Level Zero there (triton/backends/intel/driver.py).
    "LEVEL_ZERO_V1_SDK_PATH", "ZE_PATH",
})  # fmt: skip
# What `run` drops, because it replaces what a program loads or where it comes from. docs/running.md
# gives the reason for each.
_POLLUTANTS = ("PYTHON", "PIP_", "UV_", "CONDA", "_CONDA", "_CE_", "VIRTUAL_ENV", "__PYVENV_",
               "LD_", "DYLD_", "SETVARS_", "OCL_ICD_")  # fmt: skip
_ALSO_DROPPED = frozenset({
    # What oneAPI's setvars sets to lead programs and compilers to its own libraries.
    "ONEAPI_ROOT", "CMPLR_ROOT", "MKLROOT", "TBBROOT", "DPL_ROOT", "DNNLROOT", "DALROOT",
    "DAALROOT", "IPPROOT", "CCL_ROOT", "CCL_CONFIGURATION", "CCL_CONFIGURATION_PATH",
    "I_MPI_ROOT", "FI_PROVIDER_PATH", "UMF_ROOT", "TCM_ROOT", "PTI_ROOT", "INTEL_PYTHONHOME",
    # Read by the compilers that torch.compile and Triton start.
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH",
    # Extensions that were compiled for another torch; and which device backends torch loads.
    "TORCH_EXTENSIONS_DIR", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_USE_RTLD_GLOBAL",
})  # fmt: skip
# These change output, encoding, hashing and where uv and pip keep downloads, not what is loaded.
_HARMLESS = frozenset({
    "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONFAULTHANDLER", "PYTHONIOENCODING", "PYTHONUTF8",
    "PYTHONDONTWRITEBYTECODE", "UV_CACHE_DIR", "PIP_CACHE_DIR",
})  # fmt: skip
# The root of what is active: a virtual environment, a conda prefix, oneAPI after setvars.
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX", "ONEAPI_ROOT")


def clean_environment(
    base: Mapping[str, str] | None = None,
    *,
    prefix: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return ``extra`` and what is allowed by name of ``base``, by default this process's own."""
    base = os.environ if base is None else base
    kept = {name: value for name, value in base.items() if _is_kept(name)}
    for name in [name for name in kept if name.upper() in _COMPILER]:
        kept[name] = os.pathsep.join(_outside_active(base, kept[name]))
    kept["PATH"] = _search_path(base, prefix)
    if "SSL_CERT_FILE" not in kept and (bundle := base.get("PIP_CERT")):
        kept["SSL_CERT_FILE"] = bundle  # pip's name for the same setting
    return {name: value for name, value in kept.items() if value} | dict(extra or {})


def program_environment(
    base: Mapping[str, str], prefix: Path, set_by_spec: Mapping[str, str], keep: Collection[str]
) -> tuple[dict[str, str], list[str]]:
    """Return the environment of a user's program, and the names of the variables that it lacks.

    The variables of the spec win over the caller's, but not over those named in ``keep``.
    """
    wanted = set(map(_folded, keep))
    passed = {n: v for n, v in base.items() if _folded(n) in wanted or not _pollutes(n)}
    active = {n: v for n, v in base.items() if _folded(n) not in wanted}
    passed["PATH"] = _search_path(active, prefix)
    # A conda prefix, unlike a virtual environment, would load packages from the user's site.
    result = {"PYTHONNOUSERSITE": "1", **passed}
    result |= {n: v for n, v in set_by_spec.items() if not (_folded(n) in wanted and n in base)}
    return result, sorted(n for n in base if n != "PATH" and result.get(n) != base[n])


def _folded(name: str) -> str:
    return name.upper() if sys.platform == "win32" else name


def _pollutes(name: str) -> bool:
    upper = name.upper()
    return upper not in _HARMLESS and (upper in _ALSO_DROPPED or upper.startswith(_POLLUTANTS))


def _is_kept(name: str) -> bool:
    upper = name.upper()
    return upper in _KEPT | _NETWORK | _MACHINE | _COMPILER or upper.startswith("LC_")


def _search_path(base: Mapping[str, str], prefix: Path | None) -> str:
    path = _outside_active(base, base.get("PATH", os.defpath))
    if prefix is not None:
        refuse_separator(prefix)
        path[:0] = map(str, _program_folders(prefix))
    return os.pathsep.join(path)


def refuse_separator(prefix: Path) -> None:
    """Refuse a folder whose programs PATH cannot name; others of those names would run."""
    if os.pathsep in str(prefix):
        raise UsageError(
            f"no program can be run from {prefix}",
            cause=f"PATH separates folders by {os.pathsep!r}, which is in this path",
            remedy="move the project to a folder without it in its path",
        )


def _outside_active(base: Mapping[str, str], paths: str) -> list[str]:
    """Return the entries of a search path, without those of the caller's active environment."""
    # Its programs would shadow those of the environment that is run, and on Windows its DLLs too.
    # `conda activate` puts its folders into CC and INCLUDE as well, setvars into INCLUDE and LIB.
    active = [root for name in _ACTIVE if (root := base.get(name, "").rstrip(os.sep))]
    entries = [entry for entry in paths.split(os.pathsep) if entry]
    return [e for e in entries if not any(e == a or e.startswith(a + os.sep) for a in active)]


def _program_folders(prefix: Path) -> list[Path]:
    if sys.platform == "win32" and (prefix / "conda-meta").is_dir():
        # What `conda activate` puts on PATH; Windows searches PATH for DLLs as well.
        inner = ("mingw-w64/bin", "usr/bin", "bin")
        return [prefix, *(prefix / "Library" / name for name in inner), scripts_folder(prefix)]
    return [scripts_folder(prefix)]
