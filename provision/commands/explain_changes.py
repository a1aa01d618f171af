"""What would change the version of a locked package, or remove it: commands, or lines to edit."""

import json
import shlex
from collections.abc import Iterator, Sequence

from provision.commands.explain_limits import LockedTarget, exact_version, packages_of
from provision.commands.explain_newer import command_for_newest
from provision.commands.explanation import Change, Limit
from provision.lockfile.pip import WHEELHOUSE
from provision.lockfile.requirers import lines_behind


def changes(
    locked: LockedTarget, name: str, limits: Sequence[Limit]
) -> Iterator[Change]:
    """Yield what would change the version of a package of the pip layer, or remove it."""
    index = locked.artifacts[name].index
    if index == "default":
        yield from _of_default_index(locked, name, limits)
    elif index == WHEELHOUSE:
        yield _of_source(locked, name)
    elif command := command_for_newest(locked, name):
        effect = "takes the newest release of the catalog that lines alone hold back"
        yield Change(command, effect)
    yield from _removals(locked, name)


def _of_default_index(
    locked: LockedTarget, name: str, limits: Sequence[Limit]
) -> Iterator[Change]:
    target = locked.target.name
    version = locked.artifacts[name].version
    for limit in limits:
        if exact_version(limit):
            edit = f"change {limit.by}"
            if limit.kind == "package":
                edit = f"another release of {limit.by.partition(' ')[0]}"
            yield Change(edit, f"it allows {name}{limit.versions} only")
            return
    yield Change(
        f"provision lock {target} --upgrade {name}",
        "moves its cut-off to today: the newest that the limits allow",
    )
    older = shlex.quote(f"{name}<{version}")
    yield Change(
        f"provision add {target} {older} --no-build",
        "takes an older one, if the limits allow one",
    )


def _of_source(locked: LockedTarget, name: str) -> Change:
    lines = " and ".join(line.place for line in locked.lines(name))
    place = lines or f"[pip] build of {locked.places.spec}"
    source = locked.artifacts[name].source
    return Change(f"change {place}", f"it is built from {source}")


def _removals(locked: LockedTarget, name: str) -> Iterator[Change]:
    """Yield what removes a package, or the lines that lead to it."""
    remove = f"provision remove {locked.target.name}"
    users = packages_of(locked.via[name])
    named = ", ".join(users)
    if locked.lines(name):
        effect = "removes the requirement, and the package"
        if users:
            effect = f"removes the requirement; it stays in the lock, for {named}"
        yield Change(f"{remove} {name} --no-build", effect)
        return
    roots = lines_behind(name, locked.via) - {name}
    if len(roots) == 1 and roots.isdisjoint(locked.lock.local):
        (root,) = roots
        effect = f"removes {root}, which alone leads to it"
        yield Change(f"{remove} {root} --no-build", effect)
    exclude = json.dumps([*locked.places.own.get("exclude", []), name])
    require = "requires" if len(users) == 1 else "require"
    yield Change(
        f"write `exclude = {exclude}` into [pip] of {locked.places.spec}",
        f"leaves it out, although {named} {require} it",
    )
