"""Make a virtual environment and install locked wheels into it, with uv."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.ownership import require_own
from provision.core.variables import clean_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.core.process import Completed, Run
    from provision.lockfile.pip import Artifact


_MANAGED = {"linux-64": "linux-x86_64-gnu", "win-64": "windows-x86_64-none"}


def uv_program() -> str:
    """Return the path of the uv that is a dependency of this package.

    Never one from PATH: the version of uv is part of a lock's identity.
    """
    import uv  # noqa: PLC0415 - imported only to find its program

    return str(uv.find_uv_bin())


def uv_version() -> str:
    """Return uv's version."""
    return importlib.metadata.version("uv")


def interpreter(version: str) -> str:
    """Return the interpreter for a new environment: this process's base Python if it fits.

    Otherwise return the bare version; uv searches the machine for it, and downloads one if there
    is none. The base Python is preferred because the search runs every Python that it finds.
    """
    # Not sys.executable, which belongs to the toolkit's own virtual environment.
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version in {minor, f"{minor}.{sys.version_info.micro}"}:
        base = Path(sys.base_prefix)
        windows = base / "python.exe"
        python = windows if sys.platform == "win32" else base / "bin" / f"python{minor}"
        if python.is_file():
            return str(python)
    return version


def venv_argv(uv: str, prefix: Path, python: str, prompt: str) -> list[str]:
    """Return the command that makes an empty environment in a folder that exists."""
    # --allow-existing: the folder has a tag already. --no-project: a pyproject.toml above it could
    # require another Python.
    return [uv, "venv", "--no-config", "--no-project", "--allow-existing",
            "--python", python, "--prompt", prompt, str(prefix)]  # fmt: skip


def install_argv(
    uv: str,
    python: Path,
    *,
    wheelhouses: Sequence[Path],
    offline: bool,
    complete: bool,
) -> list[str]:
    """Return the command that installs locked wheels, read from standard input, and nothing else.

    Args:
        uv: The program.
        python: The environment's interpreter.
        wheelhouses: Folders to search first.
        offline: Use no network; only uv's cache and the wheelhouses.
        complete: The wheelhouses hold all wheels, so no index is needed.
    """
    # --no-deps: the lock is complete. --no-build: an sdist would run code, and what it becomes
    # depends on the machine. --no-config: no uv.toml of the caller takes part.
    argv = [uv, "pip", "install", "--no-config", "--python", str(python), "--no-deps",
            "--require-hashes", "--no-build", "--requirements", "-"]  # fmt: skip
    for folder in wheelhouses:
        argv += ["--find-links", str(folder)]
    return [*argv, *(["--no-index"] if complete else []), *(["--offline"] if offline else [])]


def index_environment(index_url: str | None) -> dict[str, str]:
    """Return the environment in which uv asks one index; None for uv's default.

    Not an option: every user of a machine can read the commands of all processes, and the address
    of a mirror may contain a password.
    """
    return clean_environment(extra={"UV_DEFAULT_INDEX": index_url} if index_url else {})


def _cache() -> Path:
    """Return the folder of uv's cache (https://docs.astral.sh/uv/concepts/cache/); not Windows'."""
    base = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache")
    return Path(os.environ.get("UV_CACHE_DIR") or Path(base, "uv"))


def render_hashed_requirements(artifacts: Sequence[Artifact]) -> str:
    """Return the requirements file of some artifacts: exact versions, one hash each."""
    return "".join(f"{a.name}=={a.version} --hash=sha256:{a.sha256}\n" for a in artifacts)


def make_venv(prefix: Path, python: str, prompt: str, run: Run) -> None:
    """Make an empty environment, which shows ``prompt`` where it is activated.

    Raises:
        ToolError: uv finds no such Python, or cannot write.
    """
    run(venv_argv(uv_program(), prefix, interpreter(python), prompt)).require(
        f"could not make an environment with Python {python}",
        remedy=f"install Python {python}, or check the network from which uv takes one",
    )


def fetch_python(version: str, platform: str, folder: Path, run: Run) -> Completed:
    """Keep the archive of one of uv's managed Pythons in a folder; uv compares its SHA-256.

    Args:
        version: Minor or full version.
        platform: conda's name of the platform, which may be another than this machine's.
        folder: An archive that it holds already is not downloaded again.
        run: Starts processes; see :func:`provision.core.process.run`.
    """
    name = f"cpython-{version}-{_MANAGED[platform]}"
    env = clean_environment(extra={"UV_PYTHON_CACHE_DIR": str(folder.resolve())})
    with tempfile.TemporaryDirectory(prefix="provision-") as unpacked:
        return run([uv_program(), "python", "install", "--no-config", "--no-bin", "--no-registry",
                    "--install-dir", unpacked, name], env=env)  # fmt: skip


def python_version(prefix: Path) -> str:
    """Return the full version of an environment's Python, from its pyvenv.cfg."""
    text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8")
    settings = dict(line.split(" = ", 1) for line in text.splitlines() if " = " in line)
    return settings.get("version_info", settings.get("version", ""))


def install_wheels(
    python: Path,
    artifacts: Sequence[Artifact],
    run: Run,
    *,
    index_url: str | None = None,
    wheelhouses: Sequence[Path] = (),
    offline: bool = False,
    complete: bool = False,
) -> Completed:
    """Install locked wheels into an environment; the caller evaluates the exit code."""
    argv = install_argv(
        uv_program(),
        python,
        wheelhouses=wheelhouses,
        offline=offline,
        complete=complete,
    )
    # uv links files from its cache: the owner of the cache could change them after every check.
    require_own([_cache()], "set UV_CACHE_DIR to a folder of your own")
    # Offline there is no download whose progress could be shown, and a miss is no error yet.
    return run(
        argv,
        env=index_environment(index_url),
        stdin=render_hashed_requirements(artifacts),
        to_terminal=not offline,
    )


def clean_cache(names: Sequence[str], run: Run) -> None:
    """Remove some distributions from uv's cache.

    Raises:
        ToolError: The cache cannot be written, or another uv process keeps it locked.
    """
    # uv waits for as long as another uv process holds the cache's lock, hence the time-out.
    run([uv_program(), "cache", "clean", "--no-config", *names], timeout=300).require(
        "could not clean uv's cache", remedy="end other uv processes and try again"
    )
