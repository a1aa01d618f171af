"""Install a lock's pip layer into an environment, one index at a time, wheelhouses first."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision import wheelhouse
from provision.engines import uv_install
from provision.errors import ToolError
from provision.words import plural, size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from provision.lockfile import Artifact, Lock
    from provision.progress import Progress
    from provision.run import Completed, Run


@dataclass(frozen=True, slots=True)
class Supply:
    """Where artifacts may come from; none of it can change what is installed.

    Attributes:
        wheelhouses: Folders that are looked into before any index.
        indexes: URL by index name, ``default`` being the user's mirror; None is uv's own default.
        offline: Ask no index at all.
    """

    wheelhouses: tuple[Path, ...]
    indexes: dict[str, str | None]
    offline: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What an installation is about to do.

    Attributes:
        packages: How many distributions.
        local: How many of them lie in a wheelhouse.
        fetch: Bytes of the others, as far as the lock knows them; uv's cache may hold some.
        unsized: How many of the others have no size in the lock.
        disk: About how many bytes the environment will take.
    """

    packages: int
    local: int
    fetch: int
    unsized: int
    disk: int

    def __str__(self) -> str:
        unsized = f" and {plural(self.unsized, 'file')} of unknown size" if self.unsized else ""
        return (
            f"{plural(self.packages, 'package')}: {self.local} from wheelhouses, at most "
            f"{size(self.fetch)}{unsized} to download, about {size(self.disk)} on disk"
        )


def plan(lock: Lock, supply: Supply) -> Plan:
    """Return what an installation of a lock will take."""
    found = wheelhouse.find(lock.artifacts, supply.wheelhouses)
    rest = [artifact for artifact in lock.artifacts if artifact not in found]
    return Plan(
        packages=len(lock.artifacts),
        local=len(found),
        fetch=sum(artifact.size or 0 for artifact in rest),
        unsized=sum(artifact.size is None for artifact in rest),
        disk=wheelhouse.size_on_disk(lock.artifacts, found),
    )


def check_space(folder: Path, needed: int) -> None:
    """Stop before anything is written where the disk is clearly too small.

    Raises:
        ToolError: Fewer than ``needed`` bytes are free below ``folder``.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ToolError(
            f"{folder} has {size(free)} free, the environment takes about {size(needed)}",
            remedy="free some space, or put .envs on another disk with a symbolic link",
        )


def install(python: Path, lock: Lock, supply: Supply, run: Run, progress: Progress) -> None:
    """Install every artifact of a lock.

    Raises:
        ToolError: An artifact cannot be had, or its sha256 is not the lock's.
    """
    for index in sorted({artifact.index for artifact in lock.artifacts}):
        group = [artifact for artifact in lock.artifacts if artifact.index == index]
        progress.step(f"installing {plural(len(group), 'package')} of {_called(index)}")
        _install_group(python, index, group, supply, run, progress)


def _install_group(
    python: Path,
    index: str,
    group: list[Artifact],
    supply: Supply,
    run: Run,
    progress: Progress,
) -> None:
    found = wheelhouse.find(group, supply.wheelhouses)
    finished = _call(python, index, group, found, supply, run)
    if finished.returncode and (bad := wheelhouse.damaged(found)):
        for path in bad:
            progress.note(f"left aside {path}: its sha256 is not the lock's")
        found = {artifact: path for artifact, path in found.items() if path not in bad}
        good = tuple(f for f in supply.wheelhouses if f not in {path.parent for path in bad})
        supply = Supply(good, supply.indexes, supply.offline)
        finished = _call(python, index, group, found, supply, run)
    if finished.returncode:
        raise _explained(index, [a for a in group if a not in found] or group, supply, finished)


def _call(
    python: Path,
    index: str,
    group: list[Artifact],
    found: dict[Artifact, Path],
    supply: Supply,
    run: Run,
) -> Completed:
    used = {path.parent for path in found.values()}
    return uv_install.install(
        python,
        group,
        run,
        index_url=supply.indexes.get(index),
        wheelhouses=[folder for folder in supply.wheelhouses if folder in used],
        offline=supply.offline or len(found) == len(group),
    )


def _explained(
    index: str, missing: Sequence[Artifact], supply: Supply, finished: Completed
) -> ToolError:
    shown = [f"{a.filename}  sha256 {a.sha256}" for a in missing[:8]]
    if len(missing) > 8:
        shown.append(f"… and {len(missing) - 8} more")
    tail = finished.stderr.strip().splitlines()[-8:]
    url = supply.indexes.get(index)
    where = "--offline was given" if supply.offline else f"{_called(index)} did not give them"
    reach = "drop --offline" if supply.offline else f"check that {url or _called(index)} answers"
    return ToolError(
        f"could not install from {_called(index)}; these files are in no wheelhouse",
        evidence="\n".join([*shown, *tail]),
        cause=where,
        remedy=f"{reach}, or put the files into a folder and name it with --wheelhouse DIR "
        "(pip's find-links is read too)",
    )


def _called(index: str) -> str:
    return "the default index" if index == "default" else f"index {index}"
