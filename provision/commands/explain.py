"""The verb ``explain``: why a package is in a lock, in this version, from this index; or why not.

From specs, locks, catalogs and the metadata of environments that are built: no network, no process.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name

from provision.commands.explain_changes import changes
from provision.commands.explain_limits import LockedTarget, Metadata, chains, limits
from provision.commands.explain_newer import newer_releases
from provision.commands.explanation import Change, Explanation, LockedFile
from provision.commands.freshness import staleness
from provision.commands.known_wrong import known_wrong_of
from provision.core.errors import ProvisionError, UsageError
from provision.core.project import Project
from provision.core.text import several_nearest
from provision.core.wheel_name import parse_wheel_name
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock, read_lock
from provision.lockfile.requirers import THE_SPEC
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
    name = str(canonicalize_name(package))
    every = target_names(project.specs)
    targets, broken = load_targets(project.specs, named or every)
    metadata = Metadata(project, every)
    read = functools.cache(read_spec_file)  # many extend the same file
    locks, found = dict[str, Lock](), list[Explanation]()
    for target in targets:
        try:
            if not named and not project.lock(target.name).is_dir():
                continue  # it waits for a hash, or was never locked
            locks[target.name] = lock = read_lock(project.lock(target.name))
            places = read_places(target, project.root, read)
            locked = LockedTarget(target, lock, places, metadata)
            found += _explained(project, locked, name)
        except ProvisionError as error:
            found.append(Explanation((target.name,), name, error=error))
    found += [Explanation((each,), name, error=e) for each, e in broken.items()]
    if all(each.error for each in found):
        _refuse(project, package, locks, found)
    return _together(found)


def _explained(
    project: Project, locked: LockedTarget, name: str
) -> Iterator[Explanation]:
    """Yield what there is to say of a package in one target: of each layer, or why it is in none."""
    found = list[Explanation]()
    if name in locked.artifacts:
        found.append(_of_pip(project, locked, name))
    if name in locked.lock.local:
        found.append(_of_own(locked, name))
    # A layer takes long to parse, and few packages are in it.
    if re.search(rf"(?im)^- name: {_spelt(name)}$", locked.lock.conda or ""):
        from provision.commands.explain_conda import (  # noqa: PLC0415 - it loads py-rattler
            explain_conda,
        )

        found += explain_conda(project, locked, name)
    found = found or [*_absent(locked, name)]
    stale = staleness(locked.target, project.catalog, locked.lock) if found else None
    again = Change(f"provision lock {locked.target.name}", "locks what changed since")
    for each in found:
        if stale:
            notes = (f"the lock is stale: {stale}", *each.notes)
            yield replace(each, notes=notes, changes=(again, *each.changes))
        else:
            yield each


def _spelt(name: str) -> str:
    """Return a pattern of a name in any spelling: conda's names have all signs."""
    return "[-_.]+".join(map(re.escape, name.split("-")))


def _of_pip(project: Project, locked: LockedTarget, name: str) -> Explanation:
    artifact, target = locked.artifacts[name], locked.target
    index, found = artifact.index, limits(locked, name)
    explained = Explanation(
        (target.name,),
        name,
        "pip",
        artifact.version,
        (_file(target.name, artifact),),
        index,
        source=artifact.source,
        required_by=tuple(user for user in artifact.via if user != THE_SPEC),
        why=tuple(chains(locked, name)),
        limits=tuple(found),
        changes=tuple(changes(locked, name, found)),
    )
    if name == "torch":
        wrong = known_wrong_of(target, artifact.version, project.catalog)
        explained = replace(explained, notes=tuple(f"known wrong: {w}" for w in wrong))
    if index == WHEELHOUSE:
        return explained
    if index != "default":
        newer = tuple(newer_releases(locked, artifact, found))
        assigned = locked.places.key(index, name, table="pip.index")
        explained = replace(explained, newer=newer, assigned=assigned)
        return _with_variants(locked, artifact, explained)
    if day := target.pip.cutoffs.get(name):
        place = locked.places.key("cutoffs", name)
        return replace(explained, cutoff=f"{day}", cutoff_place=place)
    place = locked.places.key("cutoff")
    return replace(explained, cutoff=f"{target.pip.cutoff}", cutoff_place=place)


def _with_variants(
    locked: LockedTarget, artifact: Artifact, explained: Explanation
) -> Explanation:
    """Return an explanation with the label of its wheel, and those that it could have instead."""
    labels = set[str]()
    for wheel in locked.metadata.wheels(artifact.index, artifact.name):
        is_usable = not wheel.lacks and fits(wheel.filename, *locked.target.machine)
        if is_usable and wheel.version == artifact.version:
            labels.add(wheel.variant)
    label = parse_wheel_name(artifact.filename).variant
    others = tuple(sorted(labels - {label, ""}))
    takes = [
        Change(
            f'write `{artifact.name} = "{other}"` into [pip.variants] of '
            f"{locked.places.spec}",
            f"takes the variant {other}",
        )
        for other in others
    ]
    changes = (*explained.changes, *takes)
    return replace(explained, variant=label, variants=others, changes=changes)


def _file(target: str, package: Artifact) -> LockedFile:
    return LockedFile((target,), package.filename, package.size, package.sha256)


def _of_own(locked: LockedTarget, name: str) -> Explanation:
    """Explain a package of the project itself."""
    own = locked.own.get(name)
    lines = [line for line in locked.places.lines if line.key == "local"]
    texts = [line for line in lines if own is None or line.text == own.text]
    target = locked.target.name
    notes = [f"{line.place} names it: {line.text}" for line in texts]
    notes.append("it is installed from its folder, and not locked; what it requires is")
    return Explanation((target,), name, "own", notes=tuple(notes))


def _absent(locked: LockedTarget, name: str) -> Iterator[Explanation]:
    """Yield why a package is not in the lock of a target, if the spec says anything of it."""
    if notes := tuple(_why_absent(locked, name)):
        yield Explanation((locked.target.name,), name, notes=notes)


def _why_absent(locked: LockedTarget, name: str) -> Iterator[str]:
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


def _refuse(
    project: Project, package: str, locks: dict[str, Lock], found: Sequence[Explanation]
) -> None:
    """Raise the error of a package that no lock has and no spec names; or the one of all targets."""
    if found:
        assert found[0].error  # noqa: S101 - as of all of them
        raise found[0].error
    known = {name for lock in locks.values() for name in _names(lock)}
    others = [
        target
        for target in target_names(project.specs)
        if target not in locks
        and canonicalize_name(package) in _names_of(project, target)
    ]
    near = several_nearest(canonicalize_name(package), sorted(known))
    cause = (
        f"{', '.join(others)} {'have' if others[1:] else 'has'} it" if others else ""
    )
    remedy = f"nearest names: {', '.join(near)}" if near else ""
    raise UsageError(
        f"{package} is not in the lock of {', '.join(locks) or 'any target'}",
        cause=cause,
        remedy=remedy or "`provision sbom TARGET` prints what is in a lock",
    )


def _names_of(project: Project, target: str) -> set[str]:
    try:
        return _names(read_lock(project.lock(target)))
    except ProvisionError:  # which is about another target
        return set()


def _names(lock: Lock) -> set[str]:
    conda = {str(canonicalize_name(package.name)) for package in conda_packages(lock)}
    return {*lock.versions, *lock.local, *conda}


def _together(found: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations that differ only in target and file as one; what is absent last."""
    groups: dict[Explanation, list[Explanation]] = {}
    for each in found:
        # Commands name the target; those of the first one are shown.
        alike = replace(each, targets=(), files=(), changes=())
        groups.setdefault(alike, []).append(each)
    together = []
    for group in groups.values():
        targets = tuple(name for each in group for name in each.targets)
        files: dict[LockedFile, list[str]] = {}
        for file in (file for each in group for file in each.files):
            files.setdefault(replace(file, targets=()), []).extend(file.targets)
        merged = tuple(replace(f, targets=tuple(names)) for f, names in files.items())
        together.append(replace(group[0], targets=targets, files=merged))
    return sorted(together, key=lambda each: each.layer == "none")
