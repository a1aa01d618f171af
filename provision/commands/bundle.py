"""The verb ``bundle``: all that a machine without a network needs to build a target, in a folder.

``artifacts/`` has both layers of the lock, ``tools/`` the wheels of the toolkit's own tools,
``toolkit/`` itself with the target. Run again, it resumes where it stopped.
"""

import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from provision import __version__
from provision.artifacts.parallel_fetch import (
    PARTIAL,
    MissingFile,
    fetch_all,
    wanted_archive,
    wanted_wheel,
)
from provision.artifacts.tools import RUNTIME, choose_wheels, read_tools
from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.pythons import newest, pythons_for
from provision.commands.own_sources import with_built_wheels
from provision.core import process
from provision.core.errors import UsageError, os_errors
from provision.core.filesystem import TAG, is_tagged, tag, write_atomic
from provision.core.locking import folder_lock, waiting
from provision.core.platforms import PLATFORMS
from provision.core.process import run
from provision.core.progress import Progress
from provision.core.project import PACKAGE, Project, shipped
from provision.core.text import json_text, plural
from provision.core.tree_hashing import sha256_below
from provision.installer import uv
from provision.installer.install import check_space, plan_install
from provision.installer.plan import ArtifactSources
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Lock
from provision.spec.model import Target
from provision.spec.text import resolved_text

SCHEMA = 1
MANIFEST = "manifest.json"
_LOCK = ".lock"
ARTIFACTS, TOOLS, TOOLKIT, PYTHON = "artifacts", "tools", "toolkit", "python"
# What the toolkit needs to run; the rest of a clone is for development.
_OF_TOOLKIT = (
    "noxfile.py",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "lockfiles/tools",
)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The contents of a bundle."""

    target: str
    """Name of the target."""
    folder: Path
    """Path of the bundle."""
    files: int
    """How many files the manifest lists."""
    size: int
    """Size of these files, in bytes."""
    missing: tuple[MissingFile, ...]
    """What the next run adds, with `--wheelhouse`; then the exit code is 1."""
    python: str | None
    """The archive of Python in it; null where there is none, and the machine needs one."""
    command: str
    """The command that builds the target; run it in the folder."""


def bundle(
    project: Project,
    target: Target,
    lock: Lock,
    *,
    supply: ArtifactSources,
    folder: Path,
    progress: Progress,
) -> Bundle:
    """Collect everything that builds a target in a folder; UsageError if that holds other files."""
    _refuse_foreign(folder, locked=False)  # before anything is written into it
    with folder_lock(folder, waiting(folder, progress), name=_LOCK):
        _refuse_foreign(folder, locked=True)
        tag(folder)
        for left in folder.glob(f".{TAG}.*"):
            left.unlink()
        supply = with_built_wheels(project, lock, supply, run, progress)
        missing = _artifacts(lock, supply, folder / ARTIFACTS, progress)
        missing += _tools(target, supply, folder / TOOLS, progress)
        _interpreter(project, target, supply, folder / PYTHON, progress)
        progress.step("copying the toolkit")
        _copy_toolkit(project, target, folder / TOOLKIT)
        command = _write_command(target, folder)
        sizes = _write_manifest(target, lock, folder, missing)
    python = next((folder / PYTHON).glob("*.tar.gz"), None)
    return Bundle(
        target.name,
        folder,
        len(sizes),
        sum(sizes.values()),
        tuple(missing),
        python.name if python else None,
        command,
    )


def _refuse_foreign(folder: Path, *, locked: bool) -> None:
    try:
        # One look: another run may make it now.
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        names = {folder.name}
    if _LOCK in names and not locked:
        return  # another run may be about to tag it
    # A run that was killed just before it had tagged the folder leaves a part of the tag.
    part = f".{TAG}."
    foreign = [name for name in names - {_LOCK} if not name.startswith(part)]
    if foreign and not is_tagged(folder):
        raise UsageError(
            f"{folder} exists and is not a bundle",
            cause="files that are not part of the bundle would be removed from it",
            remedy="name a folder that is empty or does not exist",
        )


def _artifacts(
    lock: Lock, supply: ArtifactSources, folder: Path, progress: Progress
) -> list[MissingFile]:
    wanted = []
    for artifact in lock.artifacts:
        index = supply.indexes.get(artifact.index)
        wanted.append(wanted_wheel(artifact, index))
    wanted += map(wanted_archive, conda_packages(lock))
    folder.mkdir(exist_ok=True)
    check_space(folder, plan_install(lock, supply).fetch)
    progress.step(f"collecting {plural(len(wanted), 'artifact')} of {lock.folder.name}")
    return _collect(wanted, folder, supply, progress)


def _tools(
    target: Target, supply: ArtifactSources, folder: Path, progress: Progress
) -> list[MissingFile]:
    tools = read_tools(shipped().lock("tools"), target.platform, target.python)
    progress.step(f"collecting {plural(len(tools), 'tool')} for {target.platform}")
    houses = (folder, *supply.wheelhouses)
    index = supply.indexes.get("default")
    wanted, missing = choose_wheels(tools, houses, index, target)
    return missing + _collect(wanted, folder, supply, progress)


def _interpreter(
    project: Project,
    target: Target,
    supply: ArtifactSources,
    folder: Path,
    progress: Progress,
) -> None:
    """Add an archive of a Python: the catalog's where a wheelhouse has it, else one of uv's.

    Without one the bundle is complete all the same: the machine may have a Python.
    """
    version = target.python_version
    progress.step(f"collecting Python {version} for {target.platform}")
    listed = newest(pythons_for(project.catalog, target.platform), version)
    if listed:
        file = WantedFile(listed.filename, listed.sha256, None, listed.url, None)
        houses = (folder, *supply.wheelhouses)
        absent = fetch_all([file], folder, houses, progress, offline=True)
        shutil.rmtree(folder / PARTIAL)
        if not absent:
            return
    done = uv.fetch_python(version, target.platform, folder, process.run)
    if not done.returncode:
        return
    shutil.rmtree(folder, ignore_errors=True)
    last = done.stderr.strip().rpartition("\n")[2]
    why = last.strip().removeprefix("cause:").removeprefix("Caused by:").strip()
    note = f"no Python {version} is in the bundle: {why}"
    if listed:
        note += (
            f"; `--wheelhouse DIR` takes {listed.filename}, sha256 {listed.sha256}, "
            f"from {listed.url}"
        )
    elif address := re.search(r"https?://[^\s)]+", done.stderr):
        note += f" {address[0]}"
    progress.note(note)


def _collect(
    wanted: list[WantedFile], folder: Path, supply: ArtifactSources, progress: Progress
) -> list[MissingFile]:
    missing = fetch_all(wanted, folder, supply.wheelhouses, progress)
    # Remove the wheels of an earlier lock; parts of downloads stay only if they can be resumed.
    expected = {file.filename for file in wanted}
    if missing:
        expected.add(PARTIAL)
    for path in folder.iterdir():
        if path.name in expected:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return missing


def _copy_toolkit(project: Project, target: Target, folder: Path) -> None:
    home = shipped()
    catalog = "envs/catalog"
    sources = {name: home.root / name for name in _OF_TOOLKIT}
    # noxfile.py installs this lock, and of its tools the bundle has those that build.
    sources["lockfiles/tools/requirements.txt"] = home.lock("tools") / RUNTIME
    sources["provision"] = PACKAGE
    sources[catalog] = home.catalog
    sources[f"lockfiles/{target.name}"] = project.lock(target.name)
    sources["smoke"] = project.smoke
    bare = shutil.ignore_patterns("__pycache__", "shipped")
    with os_errors(
        f"cannot copy the toolkit to {folder}",
        "check the toolkit's own folder, and the free space",
    ):
        for name, source in sources.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(source, path, ignore=bare)
            else:
                shutil.copyfile(source, path)
        for own in project.catalog.glob("*"):
            shutil.copyfile(own, folder / catalog / own.name)
    spec = f"{target.name}.toml"
    write_atomic(folder / "envs" / spec, resolved_text(project.specs / spec))


def _write_command(target: Target, folder: Path) -> str:
    name = PLATFORMS[target.platform].command
    template = Path(__file__).with_name(f"bundle_{name}")
    text = template.read_text(encoding="utf-8")
    text = text.format(target=target.name, python=target.python)
    command = f"./{name}"
    if name.endswith(".cmd"):
        # cmd.exe can miss labels and lines in a file with bare line feeds.
        text = text.replace("\n", "\r\n")
        command = name
    write_atomic(folder / name, text)
    (folder / name).chmod(0o755)
    return command


def _write_manifest(
    target: Target, lock: Lock, folder: Path, missing: list[MissingFile]
) -> dict[str, int]:
    """Write what the bundle holds, and return the size of each file."""
    # Parts of downloads, and what running the command in this folder makes.
    left_out = {PARTIAL, ".envs", ".tools", ".cache", ".python", MANIFEST, _LOCK}
    sizes: dict[str, int] = {}
    for path in folder.rglob("*"):
        place = path.relative_to(folder)
        if path.is_file() and left_out.isdisjoint(place.parts):
            sizes[place.as_posix()] = path.stat().st_size
    digests = sha256_below(folder, sizes)
    files = []
    for name in sorted(sizes):
        files.append({"path": name, "sha256": digests[name], "size": sizes[name]})
    document = {
        "schema": SCHEMA,
        "target": target.name,
        "platform": target.platform,
        "python": target.python,
        "lock": lock.digest,
        "toolkit": __version__,
        "files": files,
        "missing": [asdict(file) for file in missing],
    }
    write_atomic(folder / MANIFEST, json_text(document))
    return sizes
