"""The only module that starts processes: clean environments, echo, time-outs, process groups."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from provision.core.credentials import redact
from provision.core.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

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
# Dropped variables that are reported, because they would have changed a result; others would not.
_POLLUTANTS = ("PYTHON", "PIP_", "UV_", "CONDA", "VIRTUAL_ENV", "LD_", "DYLD_", "ONEAPI_ROOT",
               "SETVARS_", "CMPLR_ROOT", "MKLROOT", "CCL_", "TBBROOT", "DPL_ROOT", "CPATH",
               "LIBRARY_PATH", "OCL_ICD_", "TORCH")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished process."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    def require(self, what: str, *, remedy: str = "") -> Completed:
        """Return self if the process succeeded.

        Raises:
            ToolError: It did not; the last lines of its output are the evidence.
        """
        if self.returncode == 0:
            return self
        tail = "\n".join((self.stderr.strip() or self.stdout.strip()).splitlines()[-12:])
        cause = f"`{shlex.join(self.argv)}` ended with {describe_exit(self.returncode)}"
        raise ToolError(what, evidence=tail, cause=cause, remedy=remedy)


class Run(Protocol):
    """The signature of :func:`run`, for functions that take it as an argument."""

    def __call__(  # noqa: D102
        self,
        argv: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float | None = None,
        stdin: str | None = None,
        to_terminal: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> Completed: ...


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float | None = None,
    stdin: str | None = None,
    to_terminal: bool = False,
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run a command to its end and return what it printed.

    The command runs in its own process group, and on a time-out, on Ctrl-C and on any other
    exception the whole group is killed: uv and pytest start children, which would go on writing
    into a folder that the caller is about to remove.

    Args:
        argv: Program and arguments; never a shell line.
        env: The whole environment of the process; by default :func:`clean_environment`.
        cwd: Working directory.
        timeout: Seconds until the process group is killed.
        stdin: Text for standard input, which is empty otherwise.
        to_terminal: Let standard error through where it is a terminal, so that the command's own
            progress shows; it is not captured then.
        pass_fds: File descriptors that the process inherits (not on Windows).

    Raises:
        ToolError: The program does not exist or the time-out passed.
    """
    words = tuple(str(word) for word in argv)
    log.info("+ %s", redact(shlex.join(words)))
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            words,
            env=dict(clean_environment() if env is None else env),
            cwd=cwd,
            # A child's child may read its standard input, so without text it gets the null device.
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if to_terminal and sys.stderr.isatty() else subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=os.name == "posix",
            pass_fds=pass_fds if os.name == "posix" else (),
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except OSError as error:
        raise ToolError(
            f"could not start `{words[0]}`",
            evidence=str(error),
            remedy="check that it is installed",
        ) from error
    try:
        stdout, stderr = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as error:
        kill_group(process)
        raise ToolError(
            f"`{shlex.join(words)}` did not end within {timeout:g} s", cause="it hangs or is slow"
        ) from error
    except BaseException:
        kill_group(process)
        raise
    return Completed(words, process.returncode, stdout, stderr or "", time.monotonic() - started)


def run_foreground(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path | None = None
) -> int:
    """Run a command on the caller's terminal and return its exit code; Ctrl-C is the command's."""
    words = [str(word) for word in argv]
    log.info("+ %s", redact(shlex.join(words)))
    words[0] = _found(words[0], env)
    with subprocess.Popen(words, env=dict(env), cwd=cwd) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the terminal sent it to the command too, which decides
                continue


def _found(program: str, env: Mapping[str, str]) -> str:
    """Return a program as the PATH of the environment that it will run in finds it.

    CreateProcess searches the folder of this process's own program first, so on Windows `python`
    would be the toolkit's. Other systems search the PATH that the child gets.
    """
    if sys.platform != "win32" or Path(program).name != program:
        return program
    folders = [Path(folder) for folder in env.get("PATH", "").split(os.pathsep) if folder]
    suffixes = [*env.get("PATHEXT", ".EXE").split(";"), ""]
    found = (folder / f"{program}{suffix}" for folder in folders for suffix in suffixes)
    return next((str(path) for path in found if path.is_file()), program)


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process started by :func:`run` together with everything it started."""
    if sys.platform == "win32":
        subprocess.run(  # taskkill is part of every Windows
            ["taskkill", "/F", "/T", "/PID", str(process.pid)],  # noqa: S607
            capture_output=True,
            check=False,
        )
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()  # reap it, and close its pipes


def clean_environment(
    base: Mapping[str, str] | None = None,
    *,
    prefix: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return an environment that takes from its caller only what is allowed by name.

    Args:
        base: The caller's environment; by default this process's.
        prefix: An environment whose programs come first on PATH.
        extra: Variables to set on top, for instance a spec's ``[environment]``.
    """
    base = os.environ if base is None else base
    kept = {name: value for name, value in base.items() if _is_kept(name)}
    for name in [name for name in kept if name.upper() in _COMPILER]:
        kept[name] = os.pathsep.join(_outside_active(base, kept[name]))
    path = _outside_active(base, base.get("PATH", os.defpath))
    if prefix is not None:
        path[:0] = map(str, _program_folders(prefix))
    kept["PATH"] = os.pathsep.join(path)
    if "SSL_CERT_FILE" not in kept and (bundle := base.get("PIP_CERT")):
        kept["SSL_CERT_FILE"] = bundle  # pip's name for the same setting
    return {name: value for name, value in kept.items() if value} | dict(extra or {})


def dropped_variables(base: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that a clean environment drops and that could change a result."""
    base = os.environ if base is None else base
    return sorted(n for n in base if n.upper().startswith(_POLLUTANTS) and not _is_kept(n))


def _is_kept(name: str) -> bool:
    upper = name.upper()
    return upper in _KEPT | _NETWORK | _MACHINE | _COMPILER or upper.startswith("LC_")


def _outside_active(base: Mapping[str, str], paths: str) -> list[str]:
    """Return the entries of a search path, without those of the caller's active environment."""
    # Its programs would shadow those of the environment that is run. `conda activate` puts its
    # folders into CC and INCLUDE as well.
    active = [base[name] for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if base.get(name)]
    entries = [entry for entry in paths.split(os.pathsep) if entry]
    return [e for e in entries if not any(e == a or e.startswith(a + os.sep) for a in active)]


def scripts_folder(prefix: Path) -> Path:
    """Return the folder of a virtual environment that holds its programs, on this platform."""
    return prefix / ("Scripts" if sys.platform == "win32" else "bin")


def _program_folders(prefix: Path) -> list[Path]:
    if sys.platform == "win32" and (prefix / "conda-meta").is_dir():
        # What `conda activate` puts on PATH; Windows searches PATH for DLLs as well.
        inner = ("mingw-w64/bin", "usr/bin", "bin")
        return [prefix, *(prefix / "Library" / name for name in inner), scripts_folder(prefix)]
    return [scripts_folder(prefix)]


def environment_python(prefix: Path) -> Path:
    """Return the interpreter of an environment: a venv's, or a Windows conda prefix's."""
    if sys.platform != "win32":
        return prefix / "bin" / "python"
    in_venv = prefix / "Scripts" / "python.exe"
    return in_venv if in_venv.is_file() else prefix / "python.exe"


def describe_exit(code: int) -> str:
    """Return an exit status in words: a code, a signal, or a Windows exception."""
    if code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    if code >= 0xC0000000:  # an NTSTATUS error, such as 0xC0000005 for an access violation
        return f"Windows exception {code:#010x}"
    return f"exit code {code}"
