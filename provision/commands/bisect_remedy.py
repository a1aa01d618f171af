"""The lines of a spec with which the last good release of a search is locked."""

import json

from packaging.version import Version

from provision.commands.bisect_candidates import Candidate, with_specifier
from provision.lockfile.pip import Lock
from provision.spec.model import Target, requirement_name


def lines_that_lock(good: Candidate, target: Target, package: str) -> tuple[str, ...]:
    """Return what is to be changed in the spec of a target, so that it locks a release.

    As the search locked it: against the pins of others by an override, with the companions that
    moved, and from the indexes that had them.
    """
    assert good.lock  # noqa: S101 - it was tried
    before, now = target.pip, good.target.pip
    overrides = [entry for entry in now.overrides if entry not in before.overrides]
    changed = _changed_requirements(good.lock, target, good.target, package)
    required = map(requirement_name, now.requirements)
    if package not in required and not overrides:
        changed.append(f"{package}=={good.version}")
    lines = [f"[pip] requirements: {json.dumps(text)}" for text in changed]
    for text in before.constraints:
        if text not in now.constraints:
            lines.append(f"[pip] constraints, without: {json.dumps(text)}")
    for entry in before.overrides:
        if entry not in now.overrides:
            lines.append(f"[[pip.overrides]], without: {json.dumps(entry.requirement)}")
    lines += _of_indexes(good.lock, target, good.target)
    for entry in overrides:
        reason = f"later releases of {package} fail"
        lines.append("[[pip.overrides]]")
        lines.append(f"requirement = {json.dumps(entry.requirement)}")
        lines.append(f"reason = {json.dumps(reason)}")
    return tuple(lines)


def _changed_requirements(
    lock: Lock, before: Target, now: Target, package: str
) -> list[str]:
    """Return the requirements that changed; companions with the releases that were locked."""
    changed = []
    for text in now.pip.requirements:
        if text in before.pip.requirements:
            continue
        locked = lock.versions.get(requirement_name(text))
        # A companion whose marker leaves it out here is not locked.
        if locked is None or requirement_name(text) == package:
            changed.append(text)
        else:
            changed.append(with_specifier(text, f"=={Version(locked).public}"))
    return changed


def _of_indexes(lock: Lock, before: Target, now: Target) -> list[str]:
    """Return the lines for locked packages that come from another index, or were forbidden."""
    lines = []
    forbidden = {entry.name for entry in before.pip.forbid}
    for name in lock.versions:
        index = now.pip.index_of(name)
        if index != before.pip.index_of(name):
            lines.append(f"[pip.index] {index}: {json.dumps(name)}")
        if name in forbidden:
            lines.append(f"[[pip.forbid]], without: {json.dumps(name)}")
    return lines
