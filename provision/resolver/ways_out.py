"""What ends a conflict: lines to write into a spec, and commands, each tried before it is printed.

Where the project and its target disagree there are two ways: what the project says holds, or what
the target inherits does.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.core.platforms import LEAST_GLIBC, PYTHONS
from provision.core.process import Completed
from provision.resolver.derivation import Fact
from provision.resolver.uv import Pins, UvResolver
from provision.spec.model import Override, Target
from provision.spec.places import Line, Places, Source

_COMPANIONS = ("torchvision", "torchaudio")  # where torch comes from the default index
# Such as +cu128, which another target's index does not have.
_LOCAL = re.compile(r"\+[\w.]+")
_GLIBCS = ("2.31", "2.34", "2.35", "2.39", "2.40")  # of tags that wheels are built for
_NO_TAG = re.compile(r"has no wheel for cp\d+$")
Lines = Sequence[Line]


class Fault(NamedTuple):
    """A minimal set of requirements that cannot be met together."""

    texts: tuple[str, ...]  # as the resolver gets them
    roots: tuple[str, ...]  # the names of their distributions
    lines: tuple[Line, ...]  # that say them
    facts: tuple[Fact, ...]  # why they cannot
    said: str  # by uv
    build: tuple[str, ...] = ()  # what has to be built, where that ends it

    @property
    def change(self) -> str:
        """What to do where only other requirements help."""
        places = dict.fromkeys([line.place for line in self.lines])
        return f"change {' or '.join(places)}"


@dataclass
class Way:
    """What to do to end errors."""

    drop: list[str] = field(default_factory=list)  # what is inherited
    overrides: list[dict[str, str]] = field(default_factory=list)
    pins: list[str] = field(default_factory=list)  # to add to the spec alone
    says: list[str] = field(default_factory=list)  # in words

    def add(self, other: "Way") -> None:
        """Take over what another way does."""
        _add_new(self.drop, other.drop)
        _add_new(self.overrides, other.overrides)
        _add_new(self.pins, other.pins)
        _add_new(self.says, other.says)

    def text(self, name: str, places: Places, build: Sequence[str]) -> str:
        """Return it as a sentence for a target, with the packages that it has to build."""
        lines = []
        if self.drop:
            drop = [*places.own.get("drop", []), *self.drop]
            lines.append(f"`drop = {toml(drop)}`")
        if build:
            lines.append(f"`build = {toml(build)}`")
        if self.overrides:
            overrides = [*places.own.get("overrides", []), *self.overrides]
            lines.append(f"`overrides = {toml(overrides)}`")
        steps = list(self.says)
        if lines:
            steps.append(f"write {' and '.join(lines)} into [pip] of {places.spec}")
        # What has a wheel elsewhere would be built there too.
        if build and places.common:
            steps[-1] += f" (what has no wheel on any platform: into {places.common})"
        if self.pins:
            pins = " ".join(f"'{pin}'" for pin in self.pins)
            steps.append(f"`provision add {name} {pins} --only-here`")
        return ", and ".join(steps)


def _add_new(entries: list[Any], others: Iterable[Any]) -> None:
    entries += [entry for entry in others if entry not in entries]


def toml(value: Any) -> str:  # noqa: ANN401 - texts, and lists and tables of them
    """Return a value as TOML, in one line."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {toml(entry)}" for key, entry in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class WaysOut:
    """Finds the possible fixes of one target."""

    target: Target
    engine: UvResolver
    places: Places
    rest: tuple[str, ...] = ()  # what else the target has to meet

    def of(self, fault: Fault) -> tuple[Way, Way] | None:
        """Return how what the project says holds, and how what is inherited does; None for neither."""
        # Where nothing is inherited, the spec's own lines stand for the target.
        theirs = _required_by("inherited", fault) or _required_by("spec", fault)
        ours = [line for line in fault.lines if line not in theirs]
        if not ours:
            return None
        if not theirs and ours[0].name in self._family:  # of which no build meets it
            theirs = self._family_lines()
        keep: Way | None = None
        follow: Way | None = None
        if theirs:
            keep = self._keep(fault, theirs, ours)
            follow = self._follow(fault, theirs, ours)
        keep = keep or self._public(fault) or follow
        follow = follow or keep
        return (keep, follow) if keep and follow else None

    @property
    def _family(self) -> set[str]:
        """The distributions that come from torch's own catalog."""
        index = self.target.pip.index_of("torch")
        return {"torch", *self.target.pip.index.get(index, _COMPANIONS)}

    def _family_lines(self) -> list[Line]:
        """Return the target's lines of torch's family."""
        lines = []
        for name in sorted(self._family):
            for line in self.places.about(name):
                if line.source != "file":
                    lines.append(line)
        return lines

    def _keep(self, fault: Fault, theirs: Lines, ours: Lines) -> Way | None:
        """Return how the project's lines hold."""
        family = self._family
        if pins := self._agreeing(fault, theirs):
            return Way(pins=pins)
        if way := self._agreeing_elsewhere(fault, theirs):
            return way
        for line in theirs:
            if line.name not in family:
                return self._without(line, fault)
        for fact in fault.facts:
            for line in ours:
                if fact.needs == line.name and fact.about in family:
                    entry = {"requirement": line.text, "reason": fact.words}
                    return Way(overrides=[entry])
        return None

    def _without(self, line: Line, fault: Fault) -> Way | None:
        """Return how an error ends without one of the target's lines, if it does."""
        texts = [text for text in (*fault.texts, *self.rest) if text != line.text]
        if self.resolve(texts) is None:
            return None
        if line.source == "inherited":
            return Way(drop=[line.name])
        return Way(says=[f"remove {line.place}"])

    def _agreeing(self, fault: Fault, theirs: Lines) -> list[str]:
        """Return the versions of torch's family that agree with the project; none if none do."""
        if not any(line.name in self._family for line in theirs):
            return []
        lines = self._family_lines()
        bound = [line.text for line in lines]
        texts = [text for text in (*fault.texts, *self.rest) if text not in bound]
        resolved = self.resolve([*map(_unbounded, bound), *texts]) or {}
        pins = []
        for line in lines:
            pin = _pin(line.name, resolved)
            if pin and pin not in bound:
                pins.append(pin)
        return pins

    def _agreeing_elsewhere(self, fault: Fault, theirs: Lines) -> Way | None:
        """Return a torch that agrees with the project, where another Python has its wheel."""
        if not any(_NO_TAG.search(fact.words) for fact in fault.facts):
            return None
        for python, ways in self._other_pythons():
            if pins := ways._agreeing(fault, theirs):  # noqa: SLF001 - of this class
                write = f'write `python = "{python}"` into {self.places.spec}'
                return Way(says=[write], pins=pins)
        return None

    def _public(self, fault: Fault) -> Way | None:
        """Return how a release is kept whose build of another accelerator is asked for."""
        line = fault.lines[0]
        if len(fault.texts) > 1 or not line.name:  # of a folder
            return None
        text = _LOCAL.sub("", line.text)
        if text == line.text or _has_url(line.text):
            return None
        return self._override(line, text, fault.texts)

    def _follow(self, fault: Fault, theirs: Lines, ours: Lines) -> Way | None:
        """Return how the target's lines hold: an override of one of the project's."""
        for line in ours:
            text = self._fitting(line, theirs) if line.name else ""
            if not text or _has_url(text):  # which no override can say
                continue
            if way := self._override(line, text, [*fault.texts, *self.rest]):
                return way
        return None

    def _override(self, line: Line, text: str, texts: Sequence[str]) -> Way | None:
        """Return an override of a line, if requirements can be met with it."""
        entry = {"requirement": text, "reason": f"{line.place} requires {line.text}"}
        if self.resolve(texts, Override(**entry)) is None:
            return None
        return Way(overrides=[entry])

    def _fitting(self, line: Line, theirs: Lines) -> str:
        """Return what lines of the target require of a line's distribution, or a pin that fits them."""
        for their in theirs:
            if their.name == line.name:
                return their.text
        texts = [their.text for their in theirs]
        resolved = self.resolve([*texts, *self.rest, _unbounded(line.text)]) or {}
        return _pin(line.name, resolved)

    def resolve(self, texts: Iterable[str], *overrides: Override) -> Pins | None:
        """Resolve some requirements; None where they cannot be met."""
        overrides = (*self.target.pip.overrides, *overrides)
        target = self.target.with_pip(overrides=overrides)
        done = self.engine.pins_of(target, texts)
        return None if isinstance(done, Completed) else done

    def other_python(self, fault: Fault) -> str:
        """Return the nearest Python that ends an error of the Python, or ""."""
        if not any(map(_is_of_python, fault.facts)):
            return ""
        texts = list(fault.texts)
        for line in self.places.about("torch"):  # which not every Python has
            if line.source == "inherited":
                texts.append(line.text)
        for python, ways in self._other_pythons():
            if ways.resolve(texts) is not None:
                return python
        return ""

    def newer_glibc(self, fault: Fault) -> str:
        """Return the oldest glibc for which there are the wheels that an error lacks, or ""."""
        if not self.target.platform.startswith("linux"):
            return ""
        own = Version(self.target.glibc or f"2.{LEAST_GLIBC}")
        newer = [glibc for glibc in _GLIBCS if Version(glibc) > own]
        if not newer or not self._resolves_with(newer[-1], fault):
            return ""
        for glibc in newer[:-1]:
            if self._resolves_with(glibc, fault):
                return glibc
        return newer[-1]

    def _resolves_with(self, glibc: str, fault: Fault) -> bool:
        other = self.target.model_copy(update={"glibc": glibc})
        ways = replace(self, target=other)
        return ways.resolve(fault.texts) is not None

    def _other_pythons(self) -> Iterator[tuple[str, "WaysOut"]]:
        """Yield the other Pythons, the nearest first, and what fixes it with each."""
        own = _minor(self.target.python)
        nearest = sorted(PYTHONS, key=lambda python: abs(_minor(python) - own))
        for python in nearest[1:]:
            other = self.target.model_copy(update={"python_version": python})
            yield python, replace(self, target=other)


def _required_by(source: Source, fault: Fault) -> list[Line]:
    lines = []
    for line in fault.lines:
        if line.key == "requirements" and line.source == source:
            lines.append(line)
    return lines


def _is_of_python(fact: Fact) -> bool:
    return fact.needs == "python" or bool(_NO_TAG.search(fact.words))


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _pin(name: str, pins: Pins) -> str:
    """Return the version of a distribution that was resolved as a requirement, "" if none was."""
    if name not in pins:
        return ""
    version, _ = pins[name]
    return f"{name}=={version}"


def _unbounded(text: str) -> str:
    """Return a requirement of any version."""
    asked = Requirement(text)
    name = str(canonicalize_name(asked.name))
    if asked.extras:
        name += f"[{','.join(sorted(asked.extras))}]"
    return name


def _has_url(text: str) -> bool:
    return Requirement(text).url is not None
