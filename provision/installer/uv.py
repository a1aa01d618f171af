"""Make a virtual environment and install locked wheels into it, with uv."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from provision.core.home import home_folder
from provision.core.ownership import require_own
from provision.core.platforms import PLATFORMS
from provision.core.prefix import scripts_folder
from provision.core.process import Completed, Run
from provision.core.program import uv_program
from provision.core.temporary import scratch
from provision.core.variables import clean_environment
from provision.installer.uv_progress import run_in_terminal
from provision.lockfile.pip import Artifact, Lock

# --no-deps: the lock is complete. --no-build: an sdist would run code, and what it becomes depends
# on the machine. --no-config: no uv.toml of the caller takes part.
_INSTALL = (
    "--no-config",
    "--no-deps",
    "--require-hashes",
    "--no-build",
    "--requirements",
    "-",
)


def interpreter(version: str) -> str:
    """Return the interpreter for a new environment: this process's base Python if it fits.

    Otherwise return the bare version; uv searches the machine for it, and downloads one if there
    is none. The base Python is preferred because the search runs every Python that it finds.
    """
    major, minor, micro = sys.version_info[:3]
    own = f"{major}.{minor}"
    # Not sys.executable, which belongs to the toolkit's own virtual environment.
    name = "python.exe" if sys.platform == "win32" else f"bin/python{own}"
    base = Path(sys.base_prefix, name)
    if version in {own, f"{own}.{micro}"} and base.is_file():
        return str(base)
    return version


def index_environment(index_url: str | None) -> dict[str, str]:
    """Return the environment in which uv asks one index; None for uv's default."""
    # Not an option: every user of a machine can read the commands of all processes, and the address
    # of a mirror may contain a password.
    return clean_environment(extra={"UV_DEFAULT_INDEX": index_url} if index_url else {})


def _cache() -> Path:
    """Return the folder of uv's cache (https://docs.astral.sh/uv/concepts/cache/); not Windows'."""
    if named := os.environ.get("UV_CACHE_DIR"):
        return Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "uv")
    home = home_folder()
    return home / ".cache" / "uv" if home else Path(".uv_cache")


def make_venv(prefix: Path, python: str, prompt: str, run: Run) -> None:
    """Make an empty environment, which shows ``prompt`` where it is activated."""
    # --allow-existing: the folder has a tag already. --no-project: a pyproject.toml above it could
    # require another Python.
    argv = [
        uv_program(),
        "venv",
        "--no-config",
        "--no-project",
        "--allow-existing",
        "--python",
        interpreter(python),
        "--prompt",
        prompt,
        str(prefix),
    ]
    remedy = f"install a Python {python} that is on PATH, or check the network from which uv takes one"
    run(argv).require(
        f"could not make an environment with Python {python}",
        remedy=remedy,
        offline=remedy,
    )


def write_pip_shim(prefix: Path, lock: Lock) -> None:
    """Write a ``pip`` that says how a package is added, unless there is or will be a real one."""
    # Without it, `pip` in an activated environment is the system's: it installs somewhere else.
    folder = scripts_folder(prefix)
    if "pip" in lock.versions or any(folder.glob("pip*")):
        return
    source = "pip.sh"
    suffix = ""
    if sys.platform == "win32":
        source = "pip.cmd"
        suffix = ".cmd"
    text = Path(__file__).with_name(source).read_text(encoding="utf-8")
    text = text.replace("TARGET", lock.folder.name)
    for name in ("pip", "pip3"):
        path = folder / f"{name}{suffix}"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def remove_pip_shim(prefix: Path) -> None:
    """Remove what :func:`write_pip_shim` wrote; a real pip, as of a conda layer, stays."""
    for path in scripts_folder(prefix).glob("pip*"):
        if b"provision add" in path.read_bytes():
            path.unlink()


def fetch_python(version: str, platform: str, folder: Path, run: Run) -> Completed:
    """Keep the archive of one of uv's managed Pythons in a folder; uv compares its SHA-256."""
    name = f"cpython-{version}-{PLATFORMS[platform].python}"
    env = clean_environment(extra={"UV_PYTHON_CACHE_DIR": str(folder.resolve())})
    argv = [uv_program(), "python", "install"]
    argv += ["--no-config", "--no-bin", "--no-registry"]
    with scratch() as unpacked:
        return run([*argv, "--install-dir", unpacked, name], env=env)


def install_wheels(
    python: Path,
    artifacts: Sequence[Artifact],
    run: Run,
    arrived: dict[str, tuple[int, int]],
    *,
    index_url: str | None = None,
    wheelhouses: Sequence[Path] = (),
    offline: bool = False,
    complete: bool = False,
) -> Completed:
    """Install locked wheels into an environment, and nothing else; the caller reads the exit code.

    Where the wheelhouses are complete no index is needed, and offline uv's cache is used as well.
    ``arrived`` gets the bytes of each file that are here, and in all, where uv can tell them.
    """
    argv: list[str | Path] = [uv_program(), "pip", "install", "--python", python]
    argv += _INSTALL
    for folder in wheelhouses:
        argv += ["--find-links", folder]
    if complete:
        argv.append("--no-index")
    if offline:
        argv.append("--offline")
    # uv links files from its cache: the owner of the cache could change them after every check.
    require_own([_cache()], "set UV_CACHE_DIR to your own folder")
    env = index_environment(index_url)
    stdin = "".join(
        f"{a.name}=={a.version} --hash=sha256:{a.sha256}\n" for a in artifacts
    )
    if offline:
        return run(argv, env=env, stdin=stdin)
    sizes = {artifact.name: artifact.size or 0 for artifact in artifacts}
    return run_in_terminal(
        argv, env=env, stdin=stdin, run=run, sizes=sizes, arrived=arrived
    )


def clean_cache(names: Sequence[str], run: Run) -> None:
    """Remove some distributions from uv's cache."""
    # uv waits for as long as another uv process holds the cache's lock, hence the time-out.
    done = run([uv_program(), "cache", "clean", "--no-config", *names], timeout=300)
    remedy = "end other uv processes and try again"
    done.require("could not clean uv's cache", remedy=remedy)
