"""Install a lock's pip layer into an environment, one index at a time, wheelhouses first.

With several indexes in one call, a package of the same name on another index could be chosen
(dependency confusion): the hash would stop it, but the build would fail without need.
"""

import re
import secrets
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from provision.artifacts.parallel_fetch import (
    fetch_all,
    wanted_archive,
    wanted_wheel,
)
from provision.artifacts.wheelhouse import (
    WantedFile,
    damaged_artifacts,
    find_artifacts,
    may_unpack,
    size_on_disk,
)
from provision.core.errors import ToolError, os_errors
from provision.core.filesystem import is_link, link_or_copy
from provision.core.process import Completed, Run
from provision.core.progress import Progress
from provision.core.temporary import scratch
from provision.core.text import plural, shortened, size
from provision.core.wheel_name import split_variant
from provision.installer import uv
from provision.installer.plan import ArtifactSources, InstallPlan
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock


def plan_install(lock: Lock, supply: ArtifactSources) -> InstallPlan:
    """Return what the installation of a lock will download and write."""
    archives = map(wanted_archive, conda_packages(lock))
    items: list[Artifact | WantedFile] = [*lock.artifacts, *archives]
    local = find_artifacts(items, supply.wheelhouses)
    sizes = [item.size for item in items if item not in local]
    return InstallPlan(
        packages=len(items),
        local=len(local),
        fetch=sum(filter(None, sizes)),
        unsized=sizes.count(None),
        disk=sum(size_on_disk(item, local.get(item)) for item in items),
    )


def check_space(folder: Path, needed: int) -> None:
    """Stop before anything is written if fewer bytes than needed are free below a folder."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ToolError(
            f"{folder} has {size(free)} free, the environment takes about "
            f"{size(needed)}",
            remedy="free some space, or put .envs on another disk with a symbolic link",
        )


def install_pip_layer(
    python: Path,
    lock: Lock,
    variants: Path,
    supply: ArtifactSources,
    *,
    run: Run,
    progress: Progress,
) -> None:
    """Install every artifact of a lock; ToolError if one cannot be had with the lock's SHA-256.

    Wheels with a variant label are kept in the folder ``variants``.
    """
    labelled = []
    by_index: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in lock.artifacts:
        if artifact.variant:
            labelled.append(artifact)
        else:
            by_index[artifact.index].append(artifact)
    for index in sorted(by_index):
        artifacts = by_index[index]
        _install_of_index(python, index, artifacts, supply, run=run, progress=progress)
    if labelled:
        _install_variants(
            python, labelled, variants, supply, run=run, progress=progress
        )


def _install_variants(
    python: Path,
    artifacts: Sequence[Artifact],
    folder: Path,
    supply: ArtifactSources,
    *,
    run: Run,
    progress: Progress,
) -> None:
    """Install wheels with a variant label under the names that they would have without it.

    uv refuses a label, or installs such a wheel only where this machine has what it needs. Here
    the lock has decided, and the machine that builds need not be the one that runs.
    """
    progress.step(f"installing {plural(len(artifacts), 'wheel variant')}")
    missing = []
    for artifact in artifacts:
        wanted = wanted_wheel(artifact, supply.indexes.get(artifact.index))
        # A wheel that came from a source is on no index.
        offline = supply.offline or artifact.index == WHEELHOUSE
        missing += fetch_all(
            [wanted], folder, supply.wheelhouses, progress, offline=offline
        )
    if missing:
        raise ToolError(
            f"could not get {plural(len(missing), 'wheel variant')}",
            evidence="\n".join(map(str, missing)),
            cause="neither a wheelhouse nor its index has a file with the name and the hash",
            remedy=supply.remedy,
        )
    houses = [_without_label(artifact, folder) for artifact in artifacts]
    # uv compares each file with the hash of the lock again.
    finished = uv.install_wheels(
        python, artifacts, run, {}, wheelhouses=houses, offline=True, complete=True
    )
    finished.require(
        "could not install wheel variants",
        remedy="every file had the right hash: check the disk and its free space",
    )


def _without_label(artifact: Artifact, folder: Path) -> Path:
    """Give a wheel a second name without its variant label; return the folder that has it."""
    house = folder / artifact.sha256
    wheel = folder / artifact.filename
    plain = split_variant(artifact.filename)[0]
    if is_link(house):  # a repository may bring one, and what is behind it is not ours
        raise ToolError(
            f"{house} is a link",
            cause="a build makes a folder there, and writes into no other one",
            remedy=f"remove {house}",
        )
    with os_errors(f"cannot link {wheel}", "check the folder and the free space"):
        house.mkdir(exist_ok=True)
        if (house / plain).is_file() and (house / plain).samefile(wheel):
            return house  # which another build may be reading
        part = house / f"{secrets.token_hex(8)}.part"  # a killed build left its own
        try:
            link_or_copy(wheel, part)
            part.replace(house / plain)
        finally:
            part.unlink(missing_ok=True)
    return house


def _install_of_index(
    python: Path,
    index: str,
    artifacts: Sequence[Artifact],
    supply: ArtifactSources,
    *,
    run: Run,
    progress: Progress,
) -> None:
    arrived: dict[str, tuple[int, int]] = {}
    install = partial(
        _install, python=python, index=index, supply=supply, run=run, arrived=arrived
    )
    progress.step(
        f"installing {plural(len(artifacts), 'package')} of {_index_name(index)}"
    )
    with scratch() as links:
        # uv hashes each file; only what would do harm before that is hashed first.
        damaged = _damaged(artifacts, supply.wheelhouses, {}, progress, may_unpack)
        houses = _without(damaged, artifacts, supply.wheelhouses, links)
        # From uv's cache first: with the network allowed uv asks the index again for every page
        # that is older than ten minutes, even if it has all the wheels. The hashes decide in both.
        finished = install(artifacts, houses, offline=True)
        if finished.returncode:
            more = _damaged(artifacts, supply.wheelhouses, damaged, progress)
            damaged |= more
            houses = _without(damaged, artifacts, supply.wheelhouses, links)
            if more:
                finished = install(artifacts, houses, offline=True)
        local = find_artifacts(artifacts, houses)
        rest = [artifact for artifact in artifacts if artifact not in local]
        if finished.returncode and not supply.offline:
            what = f"downloading from {_index_name(index)}"
            progress.step(what, lambda: {"files": arrived.copy()})
            finished = _in_two_parts(install, [*local], rest, houses)
    if finished.returncode:
        raise _install_error(index, rest, damaged, supply, finished)


def _in_two_parts(
    install: Callable[..., Completed],
    local: Sequence[Artifact],
    rest: Sequence[Artifact],
    houses: Sequence[Path],
) -> Completed:
    """Install what wheelhouses have, then the rest: of both at once uv downloads both."""
    if local:
        finished = install(local, houses, offline=True)
        if finished.returncode or not rest:
            return finished
    return install(rest, houses, offline=False)


def _install(
    artifacts: Sequence[Artifact],
    houses: Sequence[Path],
    *,
    offline: bool,
    python: Path,
    index: str,
    supply: ArtifactSources,
    run: Run,
    arrived: dict[str, tuple[int, int]],
) -> Completed:
    local = find_artifacts(artifacts, houses)
    used = {path.parent for path in local.values()}
    return uv.install_wheels(
        python,
        artifacts,
        run,
        arrived,
        index_url=supply.indexes.get(index),
        wheelhouses=[folder for folder in houses if folder in used],
        # A built wheel is on no index: another file of its name there is another package.
        complete=len(local) == len(artifacts) or index == WHEELHOUSE,
        offline=offline,
    )


def _damaged(
    artifacts: Sequence[Artifact],
    wheelhouses: tuple[Path, ...],
    known: Mapping[Path, str],
    progress: Progress,
    trusted: Callable[[Artifact, Path], bool] = lambda *_: False,
) -> dict[Path, str]:
    """Return the files that have a locked name and another SHA-256, with that.

    Args:
        artifacts: What is locked.
        wheelhouses: Folders.
        known: Damaged files, which are left out.
        progress: Gets the names of the others.
        trusted: Whether a file need not be hashed.
    """
    suspects = []
    for folder in wheelhouses:
        for artifact in artifacts:
            path = folder / artifact.filename
            new = path not in known and path.is_file()
            if new and not trusted(artifact, path):
                suspects.append((artifact, path))
    damaged = damaged_artifacts(suspects)
    for path in damaged:
        progress.note(f"ignored {path}: its sha256 is not the lock's")
    return damaged


def _without(
    damaged: Mapping[Path, str],
    artifacts: Sequence[Artifact],
    wheelhouses: tuple[Path, ...],
    links: Path,
) -> tuple[Path, ...]:
    """Return the wheelhouses, for one with damaged files a folder of links to its others.

    uv takes each folder as a whole.
    """
    houses = []
    for number, folder in enumerate(wheelhouses):
        house = folder
        if any(path.parent == folder for path in damaged):
            house = links / str(number)
            shutil.rmtree(house, ignore_errors=True)
            house.mkdir()
            for path in find_artifacts(artifacts, [folder]).values():
                if path not in damaged:
                    _show(path, house / path.name)
        houses.append(house)
    return tuple(houses)


def _show(path: Path, link: Path) -> None:
    if sys.platform == "win32":  # where symbolic links are an administrator's right
        link_or_copy(path, link)
    else:
        link.symlink_to(path.absolute())


def _install_error(
    index: str,
    missing: Sequence[Artifact],
    damaged: Mapping[Path, str],
    supply: ArtifactSources,
    finished: Completed,
) -> ToolError:
    name = _index_name(index)
    # What uv's cache has is in no wheelhouse either: uv names what it lacks.
    named = [
        a
        for a in missing
        if re.search(rf"(?<![\w-]){a.name}(?![\w-])", finished.stderr)
    ]
    wrong = _wrong(missing, damaged)
    shown = [a for a in missing if a in named or a.filename in wrong] or missing
    files = [wrong.get(a.filename, f"{a.filename}  sha256 {a.sha256}") for a in shown]
    printed = finished.stderr.strip().splitlines()
    cause = f"{name} did not provide them"
    remedy = f"check that {supply.indexes.get(index) or name} answers, or "
    if supply.offline:
        cause = "--offline was given"
        remedy = ""
    fault = "are in no wheelhouse"
    if wrong:
        fault = "are damaged" if len(wrong) == len(shown) else "are damaged or absent"
        cause = f"a damaged file does not have the sha256 of the lock, and {cause}"
        remedy += "copy them again, or "
    return ToolError(
        f"could not install from {name}; these files {fault}",
        evidence="\n".join([*shortened(files, 8), *printed[-8:]]),
        cause=cause,
        remedy=f"{remedy}put the files into a folder and name it "
        "with --wheelhouse DIR (pip's find-links is read too)",
    )


def _wrong(missing: Sequence[Artifact], damaged: Mapping[Path, str]) -> dict[str, str]:
    """Return a line on each damaged file of which no wheelhouse has a good one, by its name."""
    locked = {artifact.filename: artifact.sha256 for artifact in missing}
    lines = {}
    for path, sha256 in damaged.items():
        if path.name in locked:
            must = locked[path.name]
            lines[path.name] = f"{path}  sha256 {sha256}, must be {must}"
    return lines


def _index_name(index: str) -> str:
    return "the default index" if index == "default" else f"index {index}"
