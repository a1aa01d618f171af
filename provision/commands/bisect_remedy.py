"""The lines of a spec with which the last good release of a search is locked."""

import json

from packaging.requirements import Requirement
from packaging.version import Version

from provision.commands.bisect_candidates import Candidate
from provision.lockfile.pip import Lock
from provision.spec.model import Target, requirement_name


def lines_that_lock(good: Candidate, target: Target, package: str) -> tuple[str, ...]:
    """Return what is to be changed in the spec of a target, so that it locks a release.

    As the search locked it: against the pins of others by an override, with the companions that
    moved, and from the indexes that had them.
    """
    assert good.lock  # noqa: S101 - it was tried
    before, now = target.pip, good.target.pip
    changed = [
        text if requirement_name(text) == package else _pinned(text, good.lock)
        for text in now.requirements
        if text not in before.requirements
    ]
    overrides = [each for each in now.overrides if each not in before.overrides]
    if package not in map(requirement_name, now.requirements) and not overrides:
        changed.append(f"{package}=={good.version}")
    lines = [f"[pip] requirements: {json.dumps(text)}" for text in changed]
    for text in before.constraints:
        if text not in now.constraints:
            lines.append(f"[pip] constraints, without: {json.dumps(text)}")
    for each in before.overrides:
        if each not in now.overrides:
            lines.append(f"[[pip.overrides]], without: {json.dumps(each.requirement)}")
    lines += _of_indexes(good.lock, target, good.target)
    for each in overrides:
        reason = f"later releases of {package} fail"
        lines += ["[[pip.overrides]]", f"requirement = {json.dumps(each.requirement)}"]
        lines.append(f"reason = {json.dumps(reason)}")
    return tuple(lines)


def _pinned(text: str, lock: Lock) -> str:
    """Return a requirement of a companion with the release that was locked."""
    requirement = Requirement(text)
    locked = lock.versions.get(requirement_name(text))
    if locked is None:  # its marker leaves it out here
        return text
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}=={Version(locked).public}{marker}"


def _of_indexes(lock: Lock, before: Target, now: Target) -> list[str]:
    """Return the lines for locked packages that come from another index, or were forbidden."""
    lines = []
    for name in lock.versions:
        index = now.pip.index_of(name)
        if index != before.pip.index_of(name):
            lines.append(f"[pip.index] {index}: {json.dumps(name)}")
        if any(each.name == name for each in before.pip.forbid):
            lines.append(f"[[pip.forbid]], without: {json.dumps(name)}")
    return lines
