"""Move the cut-off date of a spec, for all packages or for one, and edit nothing else in it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from provision.core.errors import UsageError
from provision.core.filesystem import write_atomic
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_spec, target_names

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from provision.core.project import Project
    from provision.spec.model import Target


def with_cutoff(text: str, package: str | None, day: dt.date) -> str:
    """Return the text of a spec with another cut-off.

    Args:
        text: Text of a valid spec.
        package: The one distribution that gets the cut-off; None for all.
        day: The cut-off: packages uploaded on this day or later are ignored.
    """
    import tomlkit  # noqa: PLC0415 - keeps comments and order; slow, and no other verb needs it

    document = tomlkit.parse(text)
    pip = document.setdefault("pip", tomlkit.table())  # absent where a spec extends another
    if package is None:
        pip["cutoff"] = day
        pip.pop("cutoffs", None)  # single cut-offs would now hold their packages back
    else:
        pip.setdefault("cutoffs", tomlkit.inline_table())[package] = day
    return tomlkit.dumps(document)


@contextlib.contextmanager
def upgrade(
    target: Target, project: Project, package: str | None, day: dt.date
) -> Iterator[Target]:
    """Move the cut-off in a target's spec, and restore the file if the body fails.

    Args:
        target: The target.
        project: The project with its spec.
        package: The one distribution that gets the cut-off; None for all.
        day: The cut-off: packages uploaded on this day or later are ignored.

    Raises:
        UsageError: The lock has no such distribution, or it comes from an index of the catalog.
    """
    name = str(canonicalize_name(package)) if package else None
    if package in target_names(project.specs):
        raise UsageError(
            f"--upgrade took {package} for a package, and it is a target",
            remedy=f"name targets first: `provision lock {package} --upgrade`",
        )
    if name and name not in read_lock(project.lock(target.name)).versions:
        raise UsageError(
            f"{target.name} has no package {package} to upgrade",
            remedy=f"add it to the requirements in envs/{target.name}.toml",
        )
    if name and (index := target.pip.index_of(name)) != "default":
        raise UsageError(
            f"{package} does not come from the default index",
            cause=f"{target.name} takes it from the catalog {index}, which has no cut-off",
            remedy="`provision update`, then name the new version in the spec",
        )
    path = project.specs / f"{target.name}.toml"
    text = path.read_text(encoding="utf-8")
    write_atomic(path, with_cutoff(text, name, day))
    try:
        yield load_spec(path)
    except BaseException:  # on Ctrl-C too, or the spec would be ahead of its lock
        write_atomic(path, text)
        raise
