"""The verb ``outdated``: what is newer than a lock, what holds it, and whether it would lock.

Nothing is guessed and nothing is written: each edit is tried with the resolver that locks.
"""

import datetime as dt
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import Version

from provision.catalog.devices import read_devices
from provision.commands.audit import Audit, audit
from provision.commands.lock import LockResult, lock
from provision.core.errors import ProvisionError
from provision.core.limits import read_text
from provision.core.program import program_name
from provision.core.project import Project
from provision.lockfile.diff import ArtifactChange
from provision.lockfile.pip import read_lock
from provision.lockfile.tags import markers
from provision.resolver.resolver import Resolver
from provision.spec.extends import spec_chain
from provision.spec.model import Target
from provision.spec.requirement_files import read_requirement_files, requirement_name

Moves = dict[str, str]  # requirement of the spec -> what it is tried as


@dataclass(frozen=True, slots=True)
class Newer:
    """A requirement of a spec that has a newer version on its index."""

    name: str
    locked: str
    newest: str  # that the target's platform and Python can install
    uploaded: str  # the day, of a file of the default index
    index: str  # that it comes from: a catalog's name, or `default`
    requirement: str  # as it is asked for
    place: str  # where, as file:line
    held_by: tuple[str, ...]  # what keeps the lock from it, or from locking it
    locks: str | None = None  # the newest version that was found to lock; None where none did
    edit: tuple[str, ...] = ()  # the requirements to write into the spec, with what moves along
    commands: tuple[str, ...] = ()  # which make the edit
    driver: str | None = None  # what [hardware] driver has to be first; None: as is
    changes: tuple[ArtifactChange, ...] = ()  # to the lock, by the edit


@dataclass(frozen=True, slots=True)
class Outdated:
    """What is newer than the lock of a target, and what is known against it."""

    target: str
    newer: tuple[Newer, ...] = ()
    packages: int = 0  # of the lock
    later: int | None = None  # how many of them change if only the cut-off moves to today
    audit: Audit | None = None
    error: ProvisionError | None = None  # why it could not be compared

    @property
    def bad(self) -> bool:
        """Whether there is something to do: an edit that locks, or an open vulnerability."""
        edits = any(each.locks and not each.driver for each in self.newer)
        return edits or any(found.bad for found in (self.audit or Audit()).vulnerabilities)


def outdated(target: Target, project: Project, resolver: Resolver, *, newer: bool) -> Outdated:
    """Compare the lock of a target with its indexes, unless only the audit is wanted."""
    try:
        locked = read_lock(project.lock(target.name)).versions
        comparison = _Comparison(target, project, resolver, locked)
        found = comparison.newer() if newer else ()
        later = comparison.attempt({}, "all")[0] if newer else None
        known = audit(target, locked, resolver.run)
    except ProvisionError as error:
        return Outdated(target.name, error=error)
    count = len(later.changes) if later and not later.error else None
    return Outdated(target.name, tuple(found), len(locked), count, known)


@dataclass(frozen=True, slots=True)
class _Comparison:
    target: Target
    project: Project
    resolver: Resolver
    locked: Mapping[str, str]

    def newer(self) -> list[Newer]:
        """Return the requirements that have a newer version."""
        system = markers(self.target.platform, self.target.python)
        asked = {}
        for text in self.target.pip.requirements:
            wanted, name = Requirement(text), requirement_name(text)
            applies = wanted.marker is None or wanted.marker.evaluate(system)
            if applies and not wanted.url and name in self.locked:
                asked[name] = text
        latest = self.resolver.newest(self._at({}, "all"), list(asked))
        return [self._examined(name, asked[name], version, day)
                for name, (version, day) in latest.items()
                if Version(version) > Version(self.locked[name])]  # fmt: skip

    def _examined(self, name: str, text: str, newest: str, day: dt.date) -> Newer:
        self.resolver.progress.step(f"{self.target.name}: {name} {newest}")
        pip, index = self.target.pip, self.target.pip.index_of(name)
        place, comment = self._place(text)
        held = [f"{text} in {place}{comment and f': {comment}'}"] * (moved(text, newest) != text)
        cutoff = pip.cutoffs.get(name, pip.cutoff)
        if late := index == "default" and day >= cutoff:
            held.append(f"the cut-off {cutoff}, as it was uploaded on {day}")
        known = Newer(name, self.locked[name], newest, f"{day}", index, text, place, (*held,))
        if self.target.status == "legacy":
            return replace(known, held_by=(*held, "a legacy target, not tried"))
        exact, above = {text: moved(text, newest)}, {text: _other(text, ">", self.locked[name])}
        # The least edit first: one cut-off, then all of them, then what there was before them.
        ways = [(exact, "own"), (exact, "all")] if late else [(exact, "")]
        for moves, cutoffs in [*ways, (above, "")]:
            result, tried = self.attempt(moves, cutoffs)
            held += [f"{other}, which moves along" for other in tried if other != text]
            if not result.error:
                break
            held += (result.error.cause or result.error.what).splitlines()
        held = list(dict.fromkeys(held))
        if result.error:
            return replace(known, held_by=(*held,))
        after = {**self.locked, **{c.name: c.after or "" for c in result.changes}}
        edit = {old: moved(old, after[requirement_name(old)])
                for old in pip.requirements if old in tried}  # fmt: skip
        driver = self._driver(after)
        held += [f"driver {self.target.hardware.driver} of the spec"] if driver else []
        return replace(known, held_by=(*held,), locks=after[name], driver=driver,
                       edit=tuple(new for old, new in edit.items() if new != old),
                       commands=self._commands(edit, cutoffs), changes=result.changes)  # fmt: skip

    def attempt(self, moves: Moves, cutoffs: str) -> tuple[LockResult, Moves]:
        """Try to lock with requirements moved; what stands in their way moves along."""
        while True:
            (result,) = lock([self._at(moves, cutoffs)], self.project, self.resolver, write=False)
            more = {
                text: _other(text, ">=", self.locked[requirement_name(text)])
                for text in (result.error.requirements if result.error else ())
                if text in self.target.pip.requirements
                and text not in moves
                and requirement_name(text) in self.locked
            }
            if not more:
                return result, moves
            moves = moves | more

    def _at(self, moves: Moves, cutoffs: str) -> Target:
        """Return the target with requirements moved, and their own cut-offs or all of them."""
        pip, today = self.target.pip, dt.datetime.now(dt.UTC).date()
        requirements = tuple(moves.get(text, text) for text in pip.requirements)
        tried = self.target.with_pip(requirements=requirements, files=())
        if cutoffs == "all":
            tried = tried.with_pip(cutoff=today, cutoffs={})
        elif cutoffs:
            own = {requirement_name(text): today for text in moves}
            tried = tried.with_pip(cutoffs=pip.cutoffs | own)
        return tried.model_copy(update={"conda": None})  # slow, and no matter to the pip layer

    def _commands(self, edit: Moves, cutoffs: str) -> tuple[str, ...]:
        name, own = self.target.name, f"{program_name()} lock {self.target.name}"
        new = [shlex.quote(new) for old, new in edit.items() if new != old]
        names = {"": [], "own": map(requirement_name, edit), "all": [""]}[cutoffs]
        upgrades = [f"{own} --upgrade {each}".strip() for each in names]
        adds = [f"{program_name()} add {name} {' '.join(new)} --no-build"] if new else []
        return (*upgrades, *adds) or (own,)

    def _driver(self, after: Mapping[str, str]) -> str | None:
        """Return the driver that another CUDA needs, if the spec promises older ones."""
        floor, now = self.target.hardware.driver, _cuda(after)
        least = read_devices(self.project.catalog).least_driver(now, self.target.platform)
        if not (least and floor) or now == _cuda(self.locked):
            return None
        promised = min(Version(each.version) for each in SpecifierSet(floor))
        return f">={least}" if promised < Version(least) else None

    def _place(self, text: str) -> tuple[str, str]:
        """Return where a requirement is written, and the comment beside it."""
        root, said = (
            self.project.root.resolve(),
            re.compile(rf"""(?:^|.*["']){re.escape(text)}["']?(?:[\s,;].*?)?(?:#\s*(.*))?$"""),
        )
        chain = spec_chain(self.project.specs / f"{self.target.name}.toml")
        files = [file.path.resolve() for file in chain]
        for path in [*files, *read_requirement_files(root, self.target.pip.files).read]:
            for number, line in enumerate(read_text(path).splitlines(), 1):
                if found := said.match(line.strip()):
                    short = path.relative_to(root) if path.is_relative_to(root) else path
                    return f"{short}:{number}", (found[1] or "").strip()
        return f"envs/{self.target.name}.toml", ""


def moved(text: str, version: str) -> str:
    """Return a requirement that allows a version; as it is if it does already."""
    wanted, new = Requirement(text), Version(version)
    if wanted.specifier.contains(new, prereleases=True):
        return text
    kept = [_raised(each, new) for each in wanted.specifier]
    return _limited(text, ",".join(sorted(filter(None, kept))))


def _raised(part: Specifier, new: Version) -> str:
    """Return one part of a specifier for a newer version; "" where it only forbids that."""
    number = part.version.removesuffix(".*")
    if part.contains(new, prereleases=True):
        return str(part)
    if part.operator not in {"==", "===", "~="}:
        return ""
    if part.operator == "~=" or part.version.endswith(".*"):
        numbers = (*new.release, 0, 0)[: len(Version(number).release)]
        end = ".*" if part.version.endswith(".*") else ""
        return f"{part.operator}{'.'.join(map(str, numbers))}{end}"
    return f"{part.operator}{new if '+' in number else new.public}"


def _limited(text: str, limit: str) -> str:
    wanted = Requirement(text)
    wanted.specifier = SpecifierSet(limit)
    return str(wanted)


def _other(text: str, operator: str, version: str) -> str:
    """Return a requirement for other versions than a locked one, without its local part."""
    return _limited(text, f"{operator}{Version(version).public}")


def _cuda(versions: Mapping[str, str]) -> str:
    """Return the major version of the CUDA that locked packages bring; "" for none."""
    local = versions.get("torch", "").partition("+cu")[2]
    brought = (v for name, v in versions.items() if name.startswith("nvidia-cuda-runtime"))
    return local[:2] or next(filter(None, brought), "").partition(".")[0]
