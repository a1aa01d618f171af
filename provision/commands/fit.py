"""Fit what a repository requires to a target: its Python, torch, what depends on the accelerator.

Its lines stay where they are. A spec gets what they leave open, and where they cannot hold on a
target, an exclusion or an override that says why.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.commands.wanted import Wanted, together
from provision.core.findings import toml_table
from provision.core.platforms import PYTHONS
from provision.core.project import shipped
from provision.lockfile.pip import read_lock
from provision.lockfile.tags import fits
from provision.spec.model import Target, requirement_name

_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
_COMPANIONS = frozenset(_TABLES["companions"])
_NO_BUILD = "of which the default index has no build"


@dataclass
class Fitter:
    """What a spec has to say so that a repository works on one target."""

    target: Target  # as it is shipped; from then on with the Python that fits
    catalog: Path
    requires_python: SpecifierSet
    requirements: list[str] = field(default_factory=list)  # of torch's family
    drop: list[str] = field(default_factory=list)  # whose inherited requirement goes
    exclude: dict[str, str] = field(default_factory=dict)  # to do without, and why
    overrides: dict[str, str] = field(default_factory=dict)  # each with its reason
    index: dict[str, list[str]] = field(default_factory=dict)  # catalog index to names
    # What was changed, and what is left out, each with its place.
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pythons = self._serving_pythons()
        self._use_python(self._pythons[0])
        forbidden = self.target.pip.forbid
        self._forbidden = {entry.name: entry.reason for entry in forbidden}
        self._shipped = {}
        for text in self.target.pip.requirements:
            self._shipped[requirement_name(text)] = Requirement(text)
        self.torch = str(self._shipped["torch"].specifier).removeprefix("==")
        self._index = self.target.pip.index_of("torch")
        self.unmet = ""  # what is asked for of torch, where this target cannot have it
        # Where the repository decides on torch, of which the default index has every release: which.
        self._open = SpecifierSet()

    def _serving_pythons(self) -> list[str]:
        """Return the Pythons that the repository takes, the nearest to the target's first."""
        usual = self.target.python
        pythons = [text for text in PYTHONS if _takes(self.requires_python, text)]
        pythons.sort(key=lambda text: abs(_minor(text) - _minor(usual)))
        place = f"requires-python {self.requires_python}"
        if not pythons:
            self.left.append(f"{place}: no target has such a Python")
            return [usual]
        if pythons[0] != usual:
            self.done.append(f"{place}: Python {pythons[0]} instead of {usual}")
        return pythons

    def _use_python(self, python: str) -> None:
        if python != self.target.python:
            self.target = self.target.model_copy(update={"python_version": python})

    def fit(self, wanted: Iterable[Wanted]) -> None:
        """Fit the lines of a repository."""
        by_name = self._by_name(wanted)
        if not by_name:
            return
        torch = by_name.pop("torch", [])
        if torch:
            self._choose_torch(torch)
        for name, lines in by_name.items():
            self._fit(name, lines)
            self._take_from_default(name, lines)
        shipped_torch = str(self._shipped["torch"].specifier)
        if self._open or shipped_torch != f"=={self.torch}":
            # The target pins those for its own torch, also where the repository does not name them.
            for name in sorted(self._shipped.keys() & _COMPANIONS - by_name.keys()):
                self._choose_companion(name, [])
        for name in _TABLES["with_torch"]:
            if name != "torchaudio" or self._before("2.9"):
                self._assign(name)

    def _by_name(self, wanted: Iterable[Wanted]) -> dict[str, list[Wanted]]:
        """Return the lines that apply to the target, by the distribution that they require."""
        by_name = defaultdict[str, list[Wanted]](list)
        for line in wanted:
            if self._applies(line):
                by_name[requirement_name(line.requirement.name)].append(line)
        return by_name

    def _applies(self, line: Wanted) -> bool:
        try:
            return self.target.applies(line.requirement)
        except ValueError:  # it compares what cannot be; the resolver says so
            return True

    def _fit(self, name: str, lines: Sequence[Wanted]) -> None:
        pinned = self._pin_of_torch(name)
        if pinned:
            self._settle(pinned, lines, f"where torch {self.torch} requires {pinned}")
            return
        why = self._no_use(name, lines)
        requirement = self._shipped.get(name)
        if why:
            self._leave_out(name, lines[0].place, why)
        elif name in _COMPANIONS:
            self._choose_companion(name, lines)
        elif requirement and not all(line.admits(requirement) for line in lines):
            self.drop.append(name)
            self.done.append(f"{lines[0]} replaces the target's {requirement}")

    def _take_from_default(self, name: str, lines: Sequence[Wanted]) -> None:
        """Say of torch's family that the default index has, where uv has another one for it."""
        if name not in _COMPANIONS and not _matches(name, _TABLES["of_torch"]):
            return
        is_default = self.target.pip.index_of(name) == "default"
        if not is_default or not any(line.has_index for line in lines):
            return
        decided = {*self.exclude, *self._shipped}
        decided.update(self.index.get(self._index, ()))
        decided.update(map(requirement_name, self.requirements))
        decided.update(map(requirement_name, self.overrides))
        if name not in decided:
            self.requirements.append(name)

    def _pin_of_torch(self, name: str) -> str:
        """Return the release that torch was built with of what only torch decides on."""
        if not _matches(name, _TABLES["of_torch"]) or self._open:
            return ""
        for text in self._requirements_of(self.torch):
            if requirement_name(text) == name:
                return f"{name}{Requirement(text).specifier}"
        # No catalog has what the default index has, but the shipped lock is of its torch.
        if self._index == "default" and name in self.locked:
            return f"{name}=={self.locked[name]}"
        return ""

    @cached_property
    def locked(self) -> dict[str, str]:
        """The versions of the shipped lock; empty where there is none."""
        folder = shipped().lock(self.target.name)
        return read_lock(folder).versions if folder.is_dir() else {}

    def _no_use(self, name: str, lines: Sequence[Wanted]) -> str:
        """Return why a distribution is of no use on the target, "" where it may be."""
        why = self._other_accelerator(name, lines)
        if why:
            return why
        if name in self._forbidden:
            return self._forbidden[name]
        beside_torch = _matches(name, _TABLES["of_torch"]) and not self._open
        if beside_torch and self.target.pip.index_of(name) == "default":
            return f"torch {self.torch} does not require it"
        return ""

    def _other_accelerator(self, name: str, lines: Sequence[Wanted]) -> str:
        ours = self.target.accelerator
        if name not in self._shipped:
            for accelerator, patterns in _TABLES["only"].items():
                if accelerator != ours and _matches(name, patterns):
                    return f"works on {accelerator} only"
        if name not in _COMPANIONS:
            for line in lines:  # the file of a build, whatever its name
                made_for = _TABLES["labels"].get(line.label, ours)
                if line.requirement.url and made_for != ours:
                    return f"a build for {made_for}"
        return ""

    def _leave_out(self, name: str, place: str, why: str) -> None:
        self.left.append(f"{place}: {name}: {why}")
        self.exclude[name] = f"{place}: {why}"

    def _choose_torch(self, lines: Sequence[Wanted]) -> None:
        wanted = together(lines)
        why = "which is another build"
        if not wanted.contains(Version(self.torch).public, prereleases=True):
            if self._index == "default":
                self._open_torch(lines, wanted)
                return
            newest = self._newest_torch(wanted)
            if not newest or self._is_forbidden(newest):
                self.unmet = str(lines[0])
            if newest:
                self.torch = newest
            else:
                why = f"of which {self._index} has no build"
        self._settle(f"torch=={self.torch}", lines, why)

    def _open_torch(self, lines: Sequence[Wanted], wanted: SpecifierSet) -> None:
        """Let the repository decide on torch, of which the default index has every release."""
        self._open = wanted
        if all(line.holds and not line.label for line in lines):
            self.requirements.append("torch")  # whose version the lines decide
            replaced = self._shipped["torch"]
            self.done.append(f"{lines[0]} replaces the target's {replaced}")
        else:
            self._settle(f"torch{wanted}", lines, _NO_BUILD)

    def _newest_torch(self, wanted: SpecifierSet) -> str:
        """Return the newest build that is wanted, for the nearest Python; "" if there is none."""
        for python in self._pythons:
            self._use_python(python)
            fitting = []
            for wheel in self._wheels("torch"):
                version = Version(wheel.version)
                if wanted.contains(version.public):
                    fitting.append(version)
            if fitting:
                return str(max(fitting))
        self._use_python(self._pythons[0])
        return ""

    def _is_forbidden(self, torch: str) -> bool:
        """Whether a release of torch requires what the target forbids."""
        for text in self._requirements_of(torch):
            applies = self.target.applies(Requirement(text))
            if applies and requirement_name(text) in self._forbidden:
                return True
        return False

    def _requirements_of(self, torch: str) -> Iterator[str]:
        """Yield what a release of torch requires, where it is in a catalog."""
        for wheel in self._wheels("torch"):
            if wheel.version == torch:
                yield from wheel.requires_dist or ()

    def _settle(self, chosen: str, lines: Sequence[Wanted], why: str) -> None:
        """Say which release is meant, as an override where lines do not admit it."""
        requirement = Requirement(chosen)
        against = [line for line in lines if not line.admits(requirement)]
        held = [line for line in against if line.holds]
        before = self._shipped.get(requirement_name(chosen))
        if held:
            self._override(chosen, held[0], why)
        elif chosen != str(before) and (before or not _holds(lines)):
            self.requirements.append(chosen)
        elif not against:
            return
        beside = ""
        if self.target.python != self._pythons[0]:
            beside = f", for which Python {self.target.python} has a wheel"
        if against:
            self.done.append(f"{against[0]}, {why}: {chosen} instead{beside}")
        else:
            place = str(lines[0]) if lines else f"torch {self.torch}"
            self.done.append(f"{place}: the spec has {chosen}{beside}")

    def _override(self, chosen: str, line: Wanted, why: str) -> None:
        self.overrides[chosen] = f"{line.place} requires {line.asked}, {why}"

    def _choose_companion(self, name: str, lines: Sequence[Wanted]) -> None:
        """Choose the release of a package that was compiled for the chosen torch."""
        if self._open:
            self._follow_open_torch(name, lines)
            return
        built = self._built_for_torch(name)
        one_for_all = name == "torchaudio" and not self._before("2.9")
        if built:
            fitting = [v for v in built if all(v in line.specifier for line in lines)]
            why = f"which is no build for torch {self.torch}"
            self._settle(f"{name}=={max(fitting or built)}", lines, why)
            self._assign(name)
        elif one_for_all or self._index == "default":
            self._take_any(name, lines, one_for_all=one_for_all)
        else:
            place = lines[0].place if lines else self.target.name
            why = f"{self._index} has none for torch {self.torch}"
            self._leave_out(name, place, why)

    def _built_for_torch(self, name: str) -> list[Version]:
        exact = {f"torch=={Version(self.torch).public}", f"torch=={self.torch}"}
        built = []
        for wheel in self._wheels(name):
            for text in wheel.requires_dist or ():
                if text.replace(" ", "") in exact:
                    built.append(Version(wheel.version))
        return built

    def _follow_open_torch(self, name: str, lines: Sequence[Wanted]) -> None:
        """Let what the repository says of torch and of a companion go together."""
        wanted = required = together(lines)
        if name == "torchaudio" and not required and self._admits_before_2_9():
            wanted = self._open  # which does not tell its torch
        if any(line.label for line in lines):
            self._settle(f"{name}{wanted}", lines, _NO_BUILD)
        elif wanted != required or not _holds(lines):
            self.requirements.append(f"{name}{wanted}")
        elif name in self._shipped:
            self.requirements.append(name)  # whose version the lines decide

    def _admits_before_2_9(self) -> bool:
        """Whether a torch with its own torchaudio can be meant; see ``with_torch``."""
        versions = ["1.13.1"]
        for minor in range(9):
            versions += [f"2.{minor}.{patch}" for patch in range(3)]
        return any(self._open.contains(version) for version in versions)

    def _take_any(
        self, name: str, lines: Sequence[Wanted], *, one_for_all: bool
    ) -> None:
        """Let the resolver choose the release of a companion that fits torch."""
        chosen = f"{name}<={Version(self.torch).public}" if one_for_all else name
        pinned = [line for line in lines if line.holds and line.is_pin]
        if pinned:
            self._override(chosen, pinned[0], "which was built for another torch")
        elif one_for_all or not _holds(lines):
            self.requirements.append(chosen)
        else:
            return
        self.done.append(f"{(pinned or lines)[0]}: any that fits torch {self.torch}")

    def _before(self, version: str) -> bool:
        return Version(self.torch) < Version(version)

    def _assign(self, name: str) -> None:
        assigned = self.index.get(self._index, [])
        if name in assigned or name in self._forbidden:
            return
        has_index = self.target.pip.index_of(name) == self._index
        if not has_index and self._wheels(name):
            self.index[self._index] = [*assigned, name]

    def _wheels(self, name: str) -> list[Wheel]:
        """Return the wheels of torch's catalog that can be installed and locked."""
        if self._index == "default":
            return []
        wheels = []
        for wheel in load_snapshot(self.catalog, self._index, Index).of(name):
            if not wheel.lacks and fits(wheel.filename, *self.target.machine):
                wheels.append(wheel)
        return wheels


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _takes(specifier: SpecifierSet, python: str) -> bool:
    """Return whether any patch release of a Python can be meant, such as 3.11.9 by >=3.11.4."""
    return any(specifier.contains(f"{python}.{patch}") for patch in (0, 99))


def _holds(lines: Iterable[Wanted]) -> bool:
    """Whether one of the lines holds for each lock."""
    return any(line.holds for line in lines)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
