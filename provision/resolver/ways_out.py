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

from provision.core.platforms import PYTHONS
from provision.core.process import Completed
from provision.resolver.derivation import Fact
from provision.resolver.uv import Pins, UvResolver
from provision.spec.model import Override, Target
from provision.spec.places import Line, Places

_COMPANIONS = ("torchvision", "torchaudio")  # where torch comes from the default index
_LOCAL = re.compile(
    r"\+[\w.]+"
)  # such as +cu128, which another target's index does not have
_GLIBCS = ("2.31", "2.34", "2.35", "2.39", "2.40")  # of tags that wheels are built for
_NO_TAG = re.compile(r"has no wheel for cp\d+$")


class Fault(NamedTuple):
    """A minimal set of requirements that cannot be met together."""

    texts: tuple[str, ...]  # as the resolver gets them
    roots: tuple[str, ...]  # the names of their distributions
    lines: tuple[Line, ...]  # that say them
    facts: tuple[Fact, ...]  # why they cannot
    said: str  # by uv
    build: tuple[str, ...] = ()  # what has to be built, where that ends it

    @property
    def places(self) -> list[str]:
        """Where they are, each place once."""
        return list(dict.fromkeys(line.place for line in self.lines))


@dataclass
class Way:
    """What to do to end errors."""

    drop: list[str] = field(default_factory=list)  # what is inherited
    overrides: list[dict[str, str]] = field(default_factory=list)
    pins: list[str] = field(default_factory=list)  # to add to the spec alone
    says: list[str] = field(default_factory=list)  # in words

    def add(self, other: "Way") -> None:
        """Take over what another way does."""
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            mine += [entry for entry in its if entry not in mine]

    def text(self, name: str, places: Places, build: Sequence[str]) -> str:
        """Return it as a sentence for a target, with the packages that it has to build."""
        own = places.own
        drop = [*own.get("drop", []), *self.drop] if self.drop else []
        overrides = [*own.get("overrides", []), *self.overrides]
        keys = {"drop": drop, "build": build}
        keys["overrides"] = overrides if self.overrides else []
        lines = [f"`{key} = {toml(value)}`" for key, value in keys.items() if value]
        steps = list(self.says)
        if lines:
            steps.append(f"write {' and '.join(lines)} into [pip] of {places.spec}")
        if (
            build and places.common
        ):  # what has a wheel elsewhere would be built there too
            steps[-1] += f" (what has no wheel on any platform: into {places.common})"
        if self.pins:
            pins = " ".join(f"'{pin}'" for pin in self.pins)
            steps.append(f"`provision add {name} {pins} --only-here`")
        return ", and ".join(steps)


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
        named = [line for line in fault.lines if line.key == "requirements"]
        theirs = [line for line in named if line.source == "inherited"]
        if not theirs:  # then the spec's own lines stand for the target
            theirs = [line for line in named if line.source == "spec"]
        ours = [line for line in fault.lines if line not in theirs]
        if ours and not theirs:
            theirs = self._fitted_to(ours[0])
        if not ours:
            return None
        kept = self._keep(fault, theirs, ours) if theirs else None
        kept = kept or self._public(fault)
        followed = self._follow(fault, theirs, ours) if theirs else None
        if not (kept or followed):
            return None
        return kept or followed or Way(), followed or kept or Way()

    @property
    def _family(self) -> set[str]:
        """The distributions that come from torch's own catalog."""
        index = self.target.pip.index_of("torch")
        return {"torch", *self.target.pip.index.get(index, _COMPANIONS)}

    def _fitted_to(self, line: Line) -> list[Line]:
        """Return the target's lines of torch's family, for a line of it that no build meets."""
        if line.name not in self._family:
            return []
        family = [line for name in self._family for line in self.places.about(name)]
        return [line for line in family if line.source != "file"]

    def _keep(
        self, fault: Fault, theirs: Sequence[Line], ours: Sequence[Line]
    ) -> Way | None:
        """Return how the project's lines hold."""
        family = self._family
        if pins := self._agreeing(fault, theirs):
            return Way(pins=pins)
        if way := self._agreeing_elsewhere(fault, theirs):
            return way
        others = [line for line in theirs if line.name not in family]
        if others:
            return self._without(others[0], fault)
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

    def _agreeing(self, fault: Fault, theirs: Sequence[Line]) -> list[str]:
        """Return the versions of torch's family that agree with the project; none if none do."""
        family = self._family
        if not any(line.name in family for line in theirs):
            return []
        mine = [line for name in sorted(family) for line in self.places.about(name)]
        mine = [line for line in mine if line.source != "file"]
        bound = [line.text for line in mine]
        texts = [text for text in (*fault.texts, *self.rest) if text not in bound]
        free = [_unbounded(text) for text in bound]
        pins = self.resolve([*free, *texts]) or {}
        agreed = [
            f"{line.name}=={pins[line.name][0]}" for line in mine if line.name in pins
        ]
        return [pin for pin in agreed if pin not in [line.text for line in mine]]

    def _agreeing_elsewhere(self, fault: Fault, theirs: Sequence[Line]) -> Way | None:
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
        text = _LOCAL.sub("", line.text)
        if len(fault.texts) > 1 or text == line.text or _has_url(line.text):
            return None
        entry = {"requirement": text, "reason": f"{line.place} requires {line.text}"}
        fits = self.resolve(fault.texts, Override(**entry)) is not None
        return Way(overrides=[entry]) if fits else None

    def _follow(
        self, fault: Fault, theirs: Sequence[Line], ours: Sequence[Line]
    ) -> Way | None:
        """Return how the target's lines hold: an override of one of the project's."""
        for line in [line for line in ours if line.name]:
            same = [their.text for their in theirs if their.name == line.name]
            text = same[0] if same else self._fitting(line, theirs)
            entry = {
                "requirement": text,
                "reason": f"{line.place} requires {line.text}",
            }
            every = (*fault.texts, *self.rest)
            if not text or _has_url(text):  # which no override can say
                continue
            if self.resolve(every, Override(**entry)) is not None:
                return Way(overrides=[entry])
        return None

    def _fitting(self, line: Line, theirs: Sequence[Line]) -> str:
        """Return the version of a distribution that fits lines of the target, as a requirement."""
        texts = [their.text for their in theirs]
        found = self.resolve([*texts, *self.rest, _unbounded(line.text)]) or {}
        return f"{line.name}=={found[line.name][0]}" if line.name in found else ""

    def resolve(self, texts: Iterable[str], *overrides: Override) -> Pins | None:
        """Resolve some requirements; None where they cannot be met."""
        every = tuple(texts)
        local = tuple(text for text in every if text in self.target.pip.local)
        others = tuple(text for text in every if text not in local)
        overrides = (*self.target.pip.overrides, *overrides)
        done = self.engine.pins(
            self.target.with_pip(requirements=others, local=local, overrides=overrides)
        )
        return None if isinstance(done, Completed) else done

    def other_python(self, fault: Fault) -> str:
        """Return the nearest Python that ends an error of the Python, or ""."""
        if any(_is_of_python(fact) for fact in fault.facts):
            for python, ways in self._other_pythons():
                if ways.resolve([*fault.texts, *self._torch()]) is not None:
                    return python
        return ""

    def newer_glibc(self, fault: Fault) -> str:
        """Return the oldest glibc for which there are the wheels that an error lacks, or ""."""
        if not self.target.platform.startswith("linux"):
            return ""
        own = Version(self.target.glibc or "2.28")
        newer = [glibc for glibc in _GLIBCS if Version(glibc) > own]
        if not any(self._resolves_with(glibc, fault) for glibc in newer[-1:]):
            return ""
        return next(glibc for glibc in newer if self._resolves_with(glibc, fault))

    def _resolves_with(self, glibc: str, fault: Fault) -> bool:
        other = self.target.model_copy(update={"glibc": glibc})
        return replace(self, target=other).resolve(fault.texts) is not None

    def _other_pythons(self) -> Iterator[tuple[str, "WaysOut"]]:
        """Yield the other Pythons, the nearest first, and what fixes it with each."""
        now = _minor(self.target.python)
        for python in sorted(PYTHONS, key=lambda each: abs(_minor(each) - now))[1:]:
            other = self.target.model_copy(update={"python_version": python})
            yield python, replace(self, target=other)

    def _torch(self) -> list[str]:
        """Return what the target inherits of torch, which not every Python has."""
        lines = self.places.about("torch")
        return [line.text for line in lines if line.source == "inherited"]


def _is_of_python(fact: Fact) -> bool:
    return fact.needs == "python" or bool(_NO_TAG.search(fact.words))


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _unbounded(text: str) -> str:
    """Return a requirement of any version."""
    asked = Requirement(text)
    extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
    return f"{canonicalize_name(asked.name)}{extras}"


def _has_url(text: str) -> bool:
    return Requirement(text).url is not None
