"""What an error is in words, and what ends it: an option, a line of the spec, another version."""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.catalog.releases import taken_variant
from provision.catalog.snapshot import Wheel
from provision.core.platforms import ACCELERATORS
from provision.lockfile.tags import fits
from provision.resolver.derivation import LATE, ONLY_SOURCE, shortest_proof
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
        labelled = self._labelled(fault)
        if known := labelled or self._hidden(fault) or self._assigned(fault):
            return known._replace(words=[*words, *known.words])
        unbuilt, texts = self.rest
        if two := WaysOut(unbuilt, self.engine, self.places, texts).of(fault):
            return Judged(words, ways=two)
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
        lacking = any(_OF_GLIBC.search(fact.words) for fact in fault.facts)
        glibc = self._ways.newer_glibc(fault) if lacking else ""
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
        if late := LATE.search(" ".join(fault.said.split())):
            return Judged([], f"{lock} {late[1]}`, or require another version")
        if day := self._hiding_cutoff(fault):
            hidden = f"the cut-off {day} hides what is newer: with today's, they fit"
            return Judged([hidden], f"{lock}` moves the cut-off to today")
        return None

    def _lacking(self, fault: Fault) -> list[str]:
        """Return what keeps the catalog's wheels of one requirement from being locked."""
        facts = list[str]()
        asked = fault.texts[0]
        if len(fault.texts) > 1 or asked in self.target.pip.local:
            return facts
        for index in self.target.pip.index:
            for wheel in self.catalog[index]:
                if wheel.lacks and _matches(asked, wheel):
                    facts.append(
                        f"the catalog lists {wheel.filename}, but {wheel.lacks}"
                    )
        return facts

    def _hiding_cutoff(self, fault: Fault) -> dt.date | None:
        """Return the cut-off that hides what would fit, if one does."""
        today = dt.datetime.now(dt.UTC).date()
        oldest = min([self.target.pip.cutoff, *self.target.pip.cutoffs.values()])
        if oldest >= today:
            return None
        later = self.target.with_pip(cutoff=today, cutoffs={})
        fits = WaysOut(later, self.engine, self.places).resolve(fault.texts)
        return oldest if fits is not None else None

    def _labelled(self, fault: Fault) -> Judged | None:
        """Explain an error of a release that its index has under other variant labels only."""
        words, steps = list[str](), list[str]()
        variants = f"[pip.variants] of {self.places.spec}"
        for absent in filter(None, (_ABSENT.fullmatch(f.words) for f in fault.facts)):
            name = requirement_name(absent[1])
            index = self.target.pip.index_of(name)
            labels = self._other_labels(absent[1], self.catalog.get(index, ()))
            if not labels:
                continue
            if labels == [""]:
                words.append(f"{index} has {absent[1]} without a variant label")
                steps.append(f"remove {name} from {variants}")
                continue
            named = [label for label in labels if label]
            words.append(
                f"{index} has {absent[1]} as a wheel variant: {', '.join(named)}"
            )
            line = f'`{name} = "LABEL"` with one of them'
            if len(named) == 1:
                line = f"`{name} = {toml(named[0])}`"
            steps.append(f"write {line} into {variants}")
        if not steps:
            return None
        change = f"change {' or '.join(fault.places)}"
        return Judged(words, f"{' and '.join(steps)}, or {change}")

    def _other_labels(self, asked: str, wheels: Sequence[Wheel]) -> list[str]:
        """Return the labels, "" for none, of fitting wheels that the target does not take."""
        name, found = requirement_name(asked), set[str]()
        labels = {wheel.variant for wheel in wheels if wheel.name == name}
        taken = taken_variant(name, labels, self.target)
        for wheel in wheels:
            other = wheel.variant != taken and not wheel.lacks
            fitting = other and _matches(asked, wheel)
            if fitting and fits(wheel.filename, *self.target.machine):
                found.add(wheel.variant)
        return sorted(found)

    def _assigned(self, fault: Fault) -> Judged | None:
        """Explain an error of what another catalog has."""
        words, lines = list[str](), list[str]()
        for absent in filter(None, (_ABSENT.fullmatch(f.words) for f in fault.facts)):
            name = requirement_name(absent[1])
            if forbidden := self._forbidden(name, fault):
                return forbidden
            if index := self._other_index(absent[1]):
                words.append(f"{absent[1]} is in {index}")
                own = self.target.pip.index.get(index, ())
                lines.append(f"`{index} = {toml([*own, name])}`")
        if not lines:
            return None
        remedy = f"write {' and '.join(lines)} into [pip.index] of {self.places.spec}"
        return Judged(words, remedy)

    def _forbidden(self, name: str, fault: Fault) -> Judged | None:
        """Explain an error of what the target forbids; None for anything else."""
        reasons = {entry.name: entry.reason for entry in self.target.pip.forbid}
        if name not in reasons:
            return None
        remedy = f"change {' or '.join(fault.places)}"
        for other in same_hardware(self.target):
            if name not in {entry.name for entry in other.pip.forbid}:
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
            for wheel in wheels:
                local = Version(wheel.version).local or build
                ours = local.startswith(build) and index != assigned
                usable = ours and not wheel.lacks
                if (
                    usable
                    and _matches(asked, wheel)
                    and fits(wheel.filename, *self.target.machine)
                ):
                    return index
        return ""

    def _nearest(self, fault: Fault) -> list[str]:
        """Return which versions next to a single requirement can be installed, as a fact."""
        asked, bounds = fault.lines[0].name, _bounds(fault)
        if not bounds:
            return []
        near = self.engine.nearest(self.target, asked, min(bounds), max(bounds))
        fitting = f"the nearest versions of {asked} that fit: {', '.join(near)}"
        return [fitting] if near else []

    def with_wheel(self, fault: Fault) -> list[str]:
        """Return the first later version of what would be built that has a wheel, as a fact."""
        asked, bounds = fault.lines[0].name, _bounds(fault)
        source_only = {f.about for f in fault.facts if f.words.endswith(ONLY_SOURCE)}
        if not bounds or asked not in source_only:
            return []
        later = self.engine.above(self.target, asked, max(bounds))
        place = fault.lines[0].place
        return [
            f"{asked} {version} has a wheel, and {place} requires an older one"
            for version in later
        ]

    def _change(self, fault: Fault) -> str:
        """Return what to do where only other requirements help."""
        change = f"change {' or '.join(fault.places)}"
        assigned = {self.target.pip.index_of(name) for name in fault.roots}
        if not any(fact.words.startswith("there is") for fact in fault.facts):
            return change  # the versions are there
        updates = [
            f"`provision update {name}`" for name in sorted(assigned - {"default"})
        ]
        return " or ".join([*updates, change])


def _bounds(fault: Fault) -> list[Version]:
    """Return the versions in a single requirement that is at fault itself."""
    asked, bounds = fault.lines[0], list[Version]()
    if (
        len(fault.texts) > 1
        or not asked.name
        or asked.name not in {fact.about for fact in fault.facts}
    ):
        return []
    for specifier in Requirement(asked.text).specifier:
        if specifier.operator != "===":  # which need not be a version
            bounds.append(Version(specifier.version.removesuffix(".*")))
    return bounds


def _matches(text: str, wheel: Wheel) -> bool:
    requirement = Requirement(text)
    named = canonicalize_name(requirement.name) == wheel.name
    return named and requirement.specifier.contains(wheel.version, prereleases=True)
