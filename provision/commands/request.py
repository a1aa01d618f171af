"""Compose what a build needs, from a target's name and the options of a command line."""

import re
from collections.abc import Sequence
from pathlib import Path

from provision.artifacts.pip_config import read_pip_config
from provision.catalog.snapshot import index_address
from provision.commands.freshness import staleness
from provision.core.errors import SpecError, UsageError
from provision.core.platforms import this_platform
from provision.core.program import program_name
from provision.core.project import Project
from provision.installer.plan import ArtifactSources
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE, Lock, read_lock
from provision.spec.model import Target

# As programs expand them, on Windows too.
_VARIABLE = re.compile(r"[$%]\{?([A-Za-z_]\w*)")


def require_platform(target: Target) -> None:
    """Raise :class:`UsageError` if a target is for another platform than this machine's."""
    here = this_platform()
    if target.platform != here:
        raise UsageError(
            f"{target.name} is for {target.platform}; this machine is {here}",
            cause="an environment is built where it runs",
            remedy=f"run `provision build {target.name}` on a {target.platform} "
            "machine",
        )


def require_fresh_lock(project: Project, target: Target) -> Lock:
    """Return the lock of a target; SpecError if the spec or catalog changed since it was made."""
    lock = read_lock(project.lock(target.name))
    remedy = f"lock it again: `{program_name()} lock {target.name}`"
    why = staleness(target, project.catalog, lock) or _foreign_variables(lock)
    if why:
        what = f"the lock of {target.name} is stale"
        raise SpecError(what, cause=why, remedy=remedy)
    foreign = _foreign_sources(project, target, lock)
    if foreign:
        raise SpecError(
            f"the lock of {target.name} takes packages from where the spec does not",
            evidence="\n".join(f"{name}: {foreign[name]}" for name in foreign),
            cause="it was not made by `provision lock` from this spec",
            remedy=remedy,
        )
    return lock


def _foreign_variables(lock: Lock) -> str:
    """Return why no file of a lock may be fetched: its addresses could send the caller's variables."""
    foreign = set[str]()
    for package in conda_packages(lock):
        foreign.update(_VARIABLE.findall(package.url))
    if not foreign:
        return ""
    names = ", ".join(sorted(foreign))
    return f"its addresses name variables that no channel has: {names}"


def _foreign_sources(project: Project, target: Target, lock: Lock) -> dict[str, str]:
    """Return what a lock, with its own seal, takes from where the spec does not, by package."""
    foreign = {}
    for artifact in lock.artifacts:
        index = target.pip.index_of(artifact.name)
        if artifact.source:
            index = WHEELHOUSE
        if artifact.index != index:
            foreign[artifact.name] = artifact.index
    catalog = project.catalog
    channels = tuple(index_address(catalog, name) for name in target.channels)
    for package in conda_packages(lock):
        if not package.url.startswith(channels):
            foreign[package.name] = package.url
    return foreign


def artifact_sources(
    project: Project,
    target: Target,
    wheelhouses: Sequence[Path],
    *,
    offline: bool = False,
) -> ArtifactSources:
    """Return where artifacts come from: the named wheelhouses, pip's configuration, the catalog."""
    for folder in wheelhouses:
        if not folder.is_dir():
            raise UsageError(f"--wheelhouse {folder}: there is no such folder")
    config = read_pip_config()
    indexes = {"default": config.index_url}
    for index in target.pip.index:
        indexes[index] = index_address(project.catalog, index)
    houses = [folder.resolve() for folder in wheelhouses]
    return ArtifactSources((*houses, *config.wheelhouses), indexes, offline=offline)
