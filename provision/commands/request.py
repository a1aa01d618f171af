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

# As os.path.expandvars() reads them, on Windows too.
_VARIABLE = re.compile(r"[$%]\{?([A-Za-z_]\w*)")


def require_platform(target: Target) -> None:
    """Raise :class:`UsageError` if a target is for another platform than this machine's."""
    if target.platform != (here := this_platform()):
        raise UsageError(
            f"{target.name} is for {target.platform}; this machine is {here}",
            cause="an environment is built where it runs",
            remedy=f"run `provision build {target.name}` on a {target.platform} "
            "machine",
        )


def require_fresh_lock(project: Project, target: Target) -> Lock:
    """Return the lock of a target; SpecError if the spec or catalog changed since it was made."""
    lock = read_lock(project.lock(target.name))
    if why := staleness(target, project.catalog, lock) or _foreign_variables(
        target, lock
    ):
        raise SpecError(
            f"the lock of {target.name} is stale",
            cause=f"{why}",
            remedy=f"lock it again: `{program_name()} lock {target.name}`",
        )
    _refuse_foreign_sources(project, target, lock)
    return lock


def _foreign_variables(target: Target, lock: Lock) -> str:
    """Return why no file of a lock may be fetched: variables are expanded in its addresses."""
    known = _VARIABLE.findall(" ".join(target.conda.channels if target.conda else ()))
    named = {
        name
        for package in conda_packages(lock)
        for name in _VARIABLE.findall(package.url)
    }
    foreign = ", ".join(sorted(named - set(known)))
    return (
        f"its addresses name variables that the spec does not: {foreign}"
        if foreign
        else ""
    )


def _refuse_foreign_sources(project: Project, target: Target, lock: Lock) -> None:
    """Refuse a lock, with its own seal, that takes anything from where the spec does not."""
    assigned = {
        a: WHEELHOUSE if a.source else target.pip.index_of(a.name)
        for a in lock.artifacts
    }
    of_index = {a.name: a.index for a, index in assigned.items() if a.index != index}
    channels = target.conda.channels if target.conda else ()
    known = tuple(index_address(project.catalog, channel) for channel in channels)
    urls = {p.name: p.url for p in conda_packages(lock) if not p.url.startswith(known)}
    if foreign := of_index | urls:
        lines = (f"{name}: {source}" for name, source in foreign.items())
        raise SpecError(
            f"the lock of {target.name} takes packages from where the spec does not",
            evidence="\n".join(lines),
            cause="it was not made by `provision lock` from this spec",
            remedy=f"lock it again: `{program_name()} lock {target.name}`",
        )


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
    indexes = {
        index: index_address(project.catalog, index) for index in target.pip.index
    }
    houses = (*(folder.resolve() for folder in wheelhouses), *config.wheelhouses)
    return ArtifactSources(
        houses, {"default": config.index_url, **indexes}, offline=offline
    )
