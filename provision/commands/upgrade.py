"""Move the cut-off date of a spec, for all packages or for one, and edit nothing else in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from provision.commands.edit_spec import pip_table
from provision.core.errors import UsageError
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_spec, target_names

if TYPE_CHECKING:
    import datetime as dt
    from pathlib import Path

    from provision.core.project import Project
    from provision.spec.model import Target


def move_cutoff(path: Path, project: Project, package: str | None, day: dt.date) -> Target:
    """Move the cut-off in a spec file.

    Raises:
        UsageError: The lock has no such distribution, or it comes from an index of the catalog.
    """
    target, name = load_spec(path), str(canonicalize_name(package)) if package else None
    if package in target_names(project.specs):
        raise UsageError(
            f"--upgrade took {package} for a package, and it is a target",
            remedy=f"name targets first: `provision lock {package} --upgrade`",
        )
    if name and name not in read_lock(project.lock(target.name)).versions:
        raise UsageError(
            f"{target.name} has no package {package} to upgrade",
            remedy=f"`provision add {target.name} {name}` adds it",
        )
    if name and (index := target.pip.index_of(name)) != "default":
        raise UsageError(
            f"{package} does not come from the default index",
            cause=f"{target.name} takes it from the catalog {index}, which has no cut-off",
            remedy="`provision update`, then name the new version in the spec",
        )
    import tomlkit  # noqa: PLC0415 - as in pip_table

    with pip_table(path) as pip:
        if name is None:
            pip["cutoff"] = day
            pip.pop("cutoffs", None)  # single cut-offs would now hold their packages back
        else:
            pip.setdefault("cutoffs", tomlkit.inline_table())[name] = day
    return load_spec(path)
