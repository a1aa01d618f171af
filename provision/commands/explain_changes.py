"""What would change the version of a locked package, or remove it: commands, or lines to edit."""

import json
import shlex
from collections.abc import Iterator, Sequence

from provision.commands.explain_limits import LockedTarget, exact_version
from provision.commands.explain_newer import command_for_newest
from provision.commands.explanation import Change, Limit
from provision.lockfile.pip import WHEELHOUSE
from provision.lockfile.requirers import THE_SPEC, lines_behind


def changes(locked: LockedTarget, name: str, found: Sequence[Limit]) -> list[Change]:
    """Return what would change the version of a package of the pip layer, or remove it."""
    artifact = locked.artifacts[name]
    versions = list[Change]()
    if artifact.index == "default":
        versions += _of_default_index(locked, name, found)
    elif artifact.index == WHEELHOUSE:
        versions += _of_source(locked, name)
    elif command := command_for_newest(locked, name):
        effect = "takes the newest release of the catalog that lines alone hold back"
        versions.append(Change(command, effect))
    return [*versions, *_removals(locked, name)]


def _of_default_index(
    locked: LockedTarget, name: str, found: Sequence[Limit]
) -> Iterator[Change]:
    target, version = locked.target.name, locked.artifacts[name].version
    for limit in found:
        if exact_version(limit):
            by = "another release of" if limit.kind == "package" else "change"
            user = limit.by.partition(" ")[0] if limit.kind == "package" else limit.by
            yield Change(f"{by} {user}", f"it allows {name}{limit.versions} only")
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


def _of_source(locked: LockedTarget, name: str) -> Iterator[Change]:
    lines = " and ".join(line.place for line in locked.lines(name))
    source = locked.artifacts[name].source
    yield Change(
        f"change {lines or f'[pip] build of {locked.places.spec}'}",
        f"it is built from {source}",
    )


def _removals(locked: LockedTarget, name: str) -> Iterator[Change]:
    """Yield what removes a package, or the lines that lead to it."""
    target, users = locked.target.name, locked.via[name]
    others = [user for user in users if user != THE_SPEC]
    if locked.lines(name):
        stays = f"; it stays in the lock, for {', '.join(others)}" if others else ""
        effect = f"removes the requirement{stays or ', and the package'}"
        yield Change(f"provision remove {target} {name} --no-build", effect)
        return
    roots = sorted(lines_behind(name, locked.via) - {name})
    own = [root for root in roots if root in locked.lock.local]
    if len(roots) == 1 and not own:
        command = f"provision remove {target} {roots[0]} --no-build"
        yield Change(command, f"removes {roots[0]}, which alone leads to it")
    exclude = json.dumps([*locked.places.own.get("exclude", []), name])
    yield Change(
        f"write `exclude = {exclude}` into [pip] of {locked.places.spec}",
        f"leaves it out, although {', '.join(others)} require{'s' * (len(others) == 1)} it",
    )
