"""The verb ``explain``: why a package is in a lock, in this version, from this index; or why not.

From specs, locks, catalogs and the metadata of environments that are built: no network, no process.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from packaging.utils import canonicalize_name

from provision.commands.explain_changes import changes
from provision.commands.explain_limits import (
    LockedTarget,
    Metadata,
    chains,
    limits_of,
    packages_of,
)
from provision.commands.explain_newer import newer_releases
from provision.commands.explanation import Change, Explanation, LockedFile
from provision.commands.freshness import staleness
from provision.commands.known_wrong import known_wrong_of
from provision.core.errors import ProvisionError, UsageError
from provision.core.project import Project
from provision.core.text import several_nearest
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock, read_lock
from provision.lockfile.tags import fits
from provision.spec.extends import read_spec_file
from provision.spec.places import read_places
from provision.spec.reader import load_targets, target_names

_NAME = re.compile(r"[\w.-]{1,200}")


def explain(project: Project, package: str, named: Sequence[str]) -> list[Explanation]:
    """Explain a package in the locks of some targets, or of all; those that are alike once.

    UsageError: no lock has it, and no spec says anything of it.
    """
    if not _NAME.fullmatch(package):
        raise UsageError(
            f"{package!r} is not the name of a package",
            remedy="name it without a version, such as `provision explain numpy`",
        )
    name = canonicalize_name(package)
    every = target_names(project.specs)
    targets, broken = load_targets(project.specs, named or every)
    metadata = Metadata(project, every)
    read = functools.cache(read_spec_file)  # many extend the same file
    locks = dict[str, Lock]()
    explanations = list[Explanation]()
    for target in targets:
        folder = project.lock(target.name)
        if not named and not folder.is_dir():
            continue  # it waits for a hash, or was never locked
        try:
            lock = read_lock(folder)
            locks[target.name] = lock
            places = read_places(target, project.root, read)
            locked = LockedTarget(target, lock, places, metadata)
            explanations += _explained(project, locked, name)
        except ProvisionError as error:
            explanations.append(Explanation((target.name,), name, error=error))
    for spec, wrong in broken.items():
        explanations.append(Explanation((spec,), name, error=wrong))
    if not explanations:
        raise _in_no_lock(project, package, locks)
    errors = [each.error for each in explanations if each.error]
    if len(errors) == len(explanations):
        raise errors[0]
    return _together(explanations)


def _explained(
    project: Project, locked: LockedTarget, name: str
) -> Iterator[Explanation]:
    """Yield what there is to say of a package in one target: of each layer, or why it is in none."""
    explanations = list[Explanation]()
    if name in locked.artifacts:
        explanations.append(_of_pip(project, locked, name))
    if name in locked.lock.local:
        explanations.append(_of_own(locked, name))
    # A layer takes long to parse, and few packages are in it.
    spelt = "[-_.]+".join(map(re.escape, name.split("-")))  # conda's have all signs
    if re.search(rf"(?im)^- name: {spelt}$", locked.lock.conda or ""):
        from provision.commands.explain_conda import (  # noqa: PLC0415 - it loads py-rattler
            explain_conda,
        )

        explanations += explain_conda(project, locked, name)
    target = locked.target
    if not explanations:
        why_absent = tuple(_why_absent(locked, name))
        if not why_absent:
            return
        explanations.append(Explanation((target.name,), name, notes=why_absent))
    stale = staleness(target, project.catalog, locked.lock)
    again = Change(f"provision lock {target.name}", "locks what changed since")
    for explanation in explanations:
        if stale:
            notes = (f"the lock is stale: {stale}", *explanation.notes)
            changes = (again, *explanation.changes)
            yield replace(explanation, notes=notes, changes=changes)
        else:
            yield explanation


def _of_pip(project: Project, locked: LockedTarget, name: str) -> Explanation:
    artifact = locked.artifacts[name]
    target = locked.target
    places = locked.places
    index = artifact.index
    limits = limits_of(locked, name)
    file = LockedFile((target.name,), artifact.filename, artifact.size, artifact.sha256)
    explained = Explanation(
        (target.name,),
        name,
        "pip",
        artifact.version,
        (file,),
        index,
        source=artifact.source,
        required_by=packages_of(artifact.via),
        why=tuple(chains(locked, name)),
        limits=tuple(limits),
        changes=tuple(changes(locked, name, limits)),
    )
    if name == "torch":
        wrong = known_wrong_of(target, artifact.version, project.catalog)
        notes = [f"known wrong: {line}" for line in wrong]
        explained = replace(explained, notes=tuple(notes))
    if index == WHEELHOUSE:
        return explained
    if index != "default":
        newer = tuple(newer_releases(locked, artifact, limits))
        assigned = places.key(index, name, table="pip.index")
        explained = replace(explained, newer=newer, assigned=assigned)
        return _with_variants(locked, artifact, explained)
    day, place = target.pip.cutoff, places.key("cutoff")
    if name in target.pip.cutoffs:
        day, place = target.pip.cutoffs[name], places.key("cutoffs", name)
    return replace(explained, cutoff=str(day), cutoff_place=place)


def _with_variants(
    locked: LockedTarget, artifact: Artifact, explained: Explanation
) -> Explanation:
    """Return an explanation with the label of its wheel, and those that it could have instead."""
    labels = set[str]()
    for wheel in locked.metadata.wheels(artifact.index, artifact.name):
        is_same = wheel.version == artifact.version and not wheel.lacks
        if is_same and fits(wheel.filename, *locked.target.machine):
            labels.add(wheel.variant)
    label = artifact.variant
    others = sorted(labels - {label, ""})
    changes = list(explained.changes)
    for other in others:
        line = f'`{artifact.name} = "{other}"`'
        edit = f"write {line} into [pip.variants] of {locked.places.spec}"
        changes.append(Change(edit, f"takes the variant {other}"))
    return replace(
        explained, variant=label, variants=tuple(others), changes=tuple(changes)
    )


def _of_own(locked: LockedTarget, name: str) -> Explanation:
    """Explain a package of the project itself."""
    own = locked.own.get(name)
    notes = []
    for line in locked.local_lines:
        if own is None or line.text == own.text:
            notes.append(f"{line.place} names it: {line.text}")
    notes.append("it is installed from its folder, and not locked; what it requires is")
    return Explanation((locked.target.name,), name, "own", notes=tuple(notes))


def _why_absent(locked: LockedTarget, name: str) -> Iterator[str]:
    """Yield why a package is not in the lock of a target, if the spec says anything of it."""
    target, places = locked.target, locked.places
    if name in target.pip.exclude:
        place = places.key("exclude", name)
        askers = " and ".join(target.inputs.left_out.get(name, ()))
        more = f", although {askers} requires it" if askers else ""
        yield f"`exclude` of {place} leaves it out, whatever requires it{more}"
    if name in target.pip.drop:
        yield f"`drop` of {places.key('drop', name)} undoes the inherited requirement"
    for entry in target.pip.forbid:
        if entry.name == name:
            yield f"`forbid` of {places.key('forbid', name)}: {entry.reason}"
    for line in places.about(name):
        if line.key == "requirements" and not locked.applies(line.text):
            machine = f"{target.platform} and Python {target.python}"
            yield f"{line.place}: {line.text}: its marker excludes {machine}"
        elif line.key == "requirements":
            yield f"{line.place} requires {line.text}, and the lock is older"
        else:
            yield f"{line.place} limits it to {line.text}, and nothing requires it"


def _in_no_lock(project: Project, package: str, locks: dict[str, Lock]) -> UsageError:
    """Return the error of a package that no lock has and no spec names."""
    name = canonicalize_name(package)
    names = set[str]()
    others = []
    for lock in locks.values():
        names |= _names(lock)
    for target in target_names(project.specs):
        with suppress(ProvisionError):  # which is about another target
            if target not in locks and name in _names(read_lock(project.lock(target))):
                others.append(target)
    cause = ""
    if others:
        has = "have" if len(others) > 1 else "has"
        cause = f"{', '.join(others)} {has} it"
    remedy = "`provision sbom TARGET` prints what is in a lock"
    near = several_nearest(name, sorted(names))
    if near:
        remedy = f"nearest names: {', '.join(near)}"
    return UsageError(
        f"{package} is not in the lock of {', '.join(locks) or 'any target'}",
        cause=cause,
        remedy=remedy,
    )


def _names(lock: Lock) -> set[str]:
    names = {*lock.versions, *lock.local}
    for package in conda_packages(lock):
        names.add(canonicalize_name(package.name))
    return names


def _together(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations that differ only in target and file as one; what is absent last."""
    groups: dict[Explanation, list[Explanation]] = {}
    for explanation in explanations:
        # Commands name the target; those of the first one are shown.
        alike = replace(explanation, targets=(), files=(), changes=())
        groups.setdefault(alike, []).append(explanation)
    merged = map(_merged, groups.values())
    return sorted(merged, key=lambda explanation: explanation.layer == "none")


def _merged(alike: Sequence[Explanation]) -> Explanation:
    """Return explanations as one with all their targets and files."""
    targets = list[str]()
    targets_of: dict[LockedFile, list[str]] = {}
    for explanation in alike:
        targets += explanation.targets
        for file in explanation.files:
            targets_of.setdefault(replace(file, targets=()), []).extend(file.targets)
    files = []
    for file, names in targets_of.items():
        files.append(replace(file, targets=tuple(names)))
    return replace(alike[0], targets=tuple(targets), files=tuple(files))
