"""Move the cut-off of a spec, for all packages or for one; the rest of the file stays as it is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from provision.core.errors import UsageError
from provision.core.filesystem import write_atomic
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_spec

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from provision.core.project import Project
    from provision.spec.model import Target


def upgraded(text: str, package: str | None, day: dt.date) -> str:
    """Return the text of a spec that knows packages up to a day.

    Args:
        text: Of the spec, sound.
        package: The one distribution that may be newer; None for all.
        day: Packages uploaded on this day or later do not exist.
    """
    import tomlkit  # noqa: PLC0415 - keeps comments and order; no other verb needs it

    document = tomlkit.parse(text)
    pip = document["pip"]
    if package is None:
        pip["cutoff"] = day
        pip.pop("cutoffs", None)
    else:
        pip.setdefault("cutoffs", tomlkit.inline_table())[package] = day
    return tomlkit.dumps(document)


@contextlib.contextmanager
def upgrade(
    target: Target, project: Project, package: str | None, day: dt.date
) -> Iterator[Target]:
    """Move the cut-off in a target's spec, and move it back if the body fails.

    Args:
        target: The target.
        project: Where its spec lies.
        package: The one distribution that may be newer; None for all.
        day: Packages uploaded on this day or later do not exist.

    Raises:
        UsageError: The lock has no such distribution.
    """
    name = str(canonicalize_name(package)) if package else None
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
    write_atomic(path, upgraded(text, name, day))
    try:
        yield load_spec(path)
    except BaseException:
        write_atomic(path, text)
        raise
