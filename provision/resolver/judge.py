"""What an error is in words, and what ends it: an option, a line of the spec, another version."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.catalog.releases import taken_variant
from provision.catalog.snapshot import Wheel
from provision.core.platforms import ACCELERATORS
from provision.lockfile.tags import fits
from provision.resolver.derivation import LATE, ONLY_SOURCE, shortest_proof, source_only
from provision.resolver.uv import UvResolver
from provision.resolver.ways_out import Fault, Way, WaysOut, toml
from provision.spec.model import Target, requirement_name
from provision.spec.places import Places
from provision.spec.reader import same_hardware

# What is compiled for a newer glibc looks like what has no wheel at all.
_OF_GLIBC = re.compile(rf"has no wheel for manylinux|{ONLY_SOURCE}$")
_ABSENT = re.compile(r"(?:there is no|no index has a package) (\S+)")
Catalog = Mapping[str, Sequence[Wheel]]


class Judged(NamedTuple):
    """An error in words, and what ends it: a sentence, or two ways to choose from."""

    words: list[str]
    says: str = ""
    ways: tuple[Way, Way] | None = None


@dataclass(frozen=True)
class Judge:
    """Explains the errors of one target."""

    target: Target
    engine: UvResolver
    catalog: Catalog
    places: Places
    rest: tuple[Target, tuple[str, ...]]  # see Search.rest

    def judge(self, fault: Fault) -> Judged:
        """Return an error in words, and what ends it."""
        words = shortest_proof(fault.facts, fault.roots)
        explained = (
            self._labelled(fault) or self._hidden(fault) or self._assigned(fault)
        )
        if explained:
            return explained._replace(words=[*words, *explained.words])
        unbuilt, texts = self.rest
        ways_out = WaysOut(unbuilt, self.engine, self.places, texts)
        if ways := ways_out.of(fault):
            return Judged(words, ways=ways)
        change = self._change(fault)
        if python := self._ways.other_python(fault):
            line = f'write `python = "{python}"` into {self.places.spec}'
            change = f"{line}, or {change}"
        elif of_glibc := self.of_glibc(fault):
            return of_glibc
        return Judged(words + self._nearest(fault), change)

    @property
    def _ways(self) -> WaysOut:
        return WaysOut(self.target, self.engine, self.places)

    def of_glibc(self, fault: Fault) -> Judged | None:
        """Explain an error of what is compiled for a newer glibc; None for any other."""
        if not any(_OF_GLIBC.search(fact.words) for fact in fault.facts):
            return None
        glibc = self._ways.newer_glibc(fault)
        if not glibc:
            return None
        words = shortest_proof(fault.facts, fault.roots)
        words.append(f"there are wheels for glibc {glibc} and newer")
        line = f'write `glibc = "{glibc}"` above the tables of {self.places.spec}'
        return Judged(words, f"{line}, if each of its machines has that")

    def _hidden(self, fault: Fault) -> Judged | None:
        """Explain an error of what is there, and hidden by the catalog's gaps or by the cut-off."""
        lock = f"`provision lock {self.target.name} --upgrade"
        if lacking := self._lacking(fault):
            update = "`provision update` gets what is missing from the index"
            return Judged(lacking, f"{update}, or hashes the file itself")
        said = " ".join(fault.said.split())
        if late := LATE.search(said):
            return Judged([], f"{lock} {late[1]}`, or require another version")
        if day := self._hiding_cutoff(fault):
            hidden = f"the cut-off {day} hides what is newer: with today's, they fit"
            return Judged([hidden], f"{lock}` moves the cut-off to today")
        return None

    def _lacking(self, fault: Fault) -> list[str]:
        """Return what keeps the catalog's wheels of one requirement from being locked."""
        reasons = list[str]()
        asked = fault.texts[0]
        if len(fault.texts) > 1 or asked in self.target.pip.local:
            return reasons
        for index in self.target.pip.index:
            for wheel in self.catalog[index]:
                if wheel.lacks and _matches(asked, wheel):
                    reason = f"the catalog lists {wheel.filename}, but {wheel.lacks}"
                    reasons.append(reason)
        return reasons

    def _hiding_cutoff(self, fault: Fault) -> dt.date | None:
        """Return the cut-off that hides what would fit, if one does."""
        today = dt.datetime.now(dt.UTC).date()
        pip = self.target.pip
        oldest = min([pip.cutoff, *pip.cutoffs.values()])
        if oldest >= today:
            return None
        later = self.target.with_pip(cutoff=today, cutoffs={})
        ways_out = WaysOut(later, self.engine, self.places)
        if ways_out.resolve(fault.texts) is None:
            return None
        return oldest

    def _labelled(self, fault: Fault) -> Judged | None:
        """Explain an error of a release that its index has under other variant labels only."""
        words = []
        steps = []
        variants = f"[pip.variants] of {self.places.spec}"
        for asked in _absent(fault):
            name = requirement_name(asked)
            index = self.target.pip.index_of(name)
            labels = self._other_labels(asked, self.catalog.get(index, ()))
            named = [label for label in labels if label]
            if named:
                words.append(
                    f"{index} has {asked} as a wheel variant: {', '.join(named)}"
                )
                line = f'`{name} = "LABEL"` with one of them'
                if len(named) == 1:
                    line = f"`{name} = {toml(named[0])}`"
                steps.append(f"write {line} into {variants}")
            elif labels:
                words.append(f"{index} has {asked} without a variant label")
                steps.append(f"remove {name} from {variants}")
        if not steps:
            return None
        return Judged(words, f"{' and '.join(steps)}, or {fault.change}")

    def _other_labels(self, asked: str, wheels: Sequence[Wheel]) -> list[str]:
        """Return the labels, "" for none, of fitting wheels that the target does not take."""
        name = requirement_name(asked)
        labels = {wheel.variant for wheel in wheels if wheel.name == name}
        taken = taken_variant(name, labels, self.target)
        others = set()
        for wheel in wheels:
            if wheel.variant != taken and self._is_usable(wheel, asked):
                others.add(wheel.variant)
        return sorted(others)

    def _is_usable(self, wheel: Wheel, asked: str) -> bool:
        """Whether a wheel meets a requirement, and can be locked for the target's machines."""
        if wheel.lacks or not _matches(asked, wheel):
            return False
        return fits(wheel.filename, *self.target.machine)

    def _assigned(self, fault: Fault) -> Judged | None:
        """Explain an error of what another catalog has."""
        words = []
        lines = []
        for asked in _absent(fault):
            name = requirement_name(asked)
            if forbidden := self._forbidden(name, fault):
                return forbidden
            if index := self._other_index(asked):
                words.append(f"{asked} is in {index}")
                own = self.target.pip.index.get(index, ())
                lines.append(f"`{index} = {toml([*own, name])}`")
        if not lines:
            return None
        remedy = f"write {' and '.join(lines)} into [pip.index] of {self.places.spec}"
        return Judged(words, remedy)

    def _forbidden(self, name: str, fault: Fault) -> Judged | None:
        """Explain an error of what the target forbids; None for anything else."""
        reasons = _forbidden_by(self.target)
        if name not in reasons:
            return None
        remedy = fault.change
        for other in same_hardware(self.target):
            if name not in _forbidden_by(other):
                command = f"provision init --target {other.name}"
                remedy = f"`{command}` adds a target that allows it"
                break
        words = f"{self.target.name} forbids {name}: {reasons[name]}"
        return Judged([words], remedy)

    def _other_index(self, asked: str) -> str:
        """Return another index that has it, for this accelerator."""
        assigned = self.target.pip.index_of(requirement_name(asked))
        build = ACCELERATORS[self.target.accelerator].build
        for index, wheels in self.catalog.items():
            if index == assigned:
                continue
            for wheel in wheels:
                local = Version(wheel.version).local or build
                if local.startswith(build) and self._is_usable(wheel, asked):
                    return index
        return ""

    def _nearest(self, fault: Fault) -> list[str]:
        """Return which versions next to a single requirement can be installed, as a fact."""
        asked = fault.lines[0].name
        bounds = _bounds(fault)
        if not bounds:
            return []
        near = self.engine.nearest(self.target, asked, min(bounds), max(bounds))
        if not near:
            return []
        return [f"the nearest versions of {asked} that fit: {', '.join(near)}"]

    def with_wheel(self, fault: Fault) -> list[str]:
        """Return the first later version of what would be built that has a wheel, as a fact."""
        line = fault.lines[0]
        bounds = _bounds(fault)
        if not bounds or line.name not in source_only(fault.facts):
            return []
        older = f"has a wheel, and {line.place} requires an older one"
        later = self.engine.above(self.target, line.name, max(bounds))
        return [f"{line.name} {version} {older}" for version in later]

    def _change(self, fault: Fault) -> str:
        """Return what to do where only other requirements help."""
        if not any(fact.words.startswith("there is") for fact in fault.facts):
            return fault.change  # the versions are there
        assigned = {self.target.pip.index_of(name) for name in fault.roots}
        catalogs = sorted(assigned - {"default"})
        updates = [f"`provision update {name}`" for name in catalogs]
        return " or ".join([*updates, fault.change])


def _forbidden_by(target: Target) -> dict[str, str]:
    """Return the distributions that a target forbids, and why."""
    return {entry.name: entry.reason for entry in target.pip.forbid}


def _absent(fault: Fault) -> Iterator[str]:
    """Yield the requirements that no index meets."""
    for fact in fault.facts:
        if absent := _ABSENT.fullmatch(fact.words):
            yield absent[1]


def _bounds(fault: Fault) -> list[Version]:
    """Return the versions in a single requirement that is at fault itself."""
    asked = fault.lines[0]
    bounds = []
    at_fault = {fact.about for fact in fault.facts} - {""}
    if len(fault.texts) > 1 or asked.name not in at_fault:
        return []
    for specifier in Requirement(asked.text).specifier:
        if specifier.operator != "===":  # which need not be a version
            bounds.append(Version(specifier.version.removesuffix(".*")))
    return bounds


def _matches(text: str, wheel: Wheel) -> bool:
    requirement = Requirement(text)
    if canonicalize_name(requirement.name) != wheel.name:
        return False
    return requirement.specifier.contains(wheel.version, prereleases=True)
