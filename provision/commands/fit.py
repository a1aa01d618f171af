"""Fit what a repository asks for to a target: what depends on torch or on the accelerator."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.core.findings import toml_table
from provision.lockfile.tags import best_wheel
from provision.spec.model import Target
from provision.spec.requirement_files import requirement_name

_TABLES = toml_table(Path(__file__).with_suffix(".toml"))
_COMPANIONS = frozenset(_TABLES["companions"])
_LOCAL = re.compile(r"\+[\w.]+")  # 2.8.0+cu128 of the repository is 2.8.0+xpu here


@dataclass
class Fitter:
    """What a spec has to say to serve a repository on one target."""

    target: Target  # as it is shipped; from then on with the Python that serves
    catalog: Path
    requires_python: SpecifierSet = field(default_factory=SpecifierSet)
    requirements: list[str] = field(default_factory=list)  # requirements of its own
    exclude: list[str] = field(default_factory=list)  # distributions to do without
    # Requirements that hold instead of lines of files, with these.
    overrides: dict[str, str] = field(default_factory=dict)
    index: dict[str, list[str]] = field(default_factory=dict)  # catalog index to names
    done: list[str] = field(
        default_factory=list
    )  # what was changed, each with its place
    left: list[str] = field(
        default_factory=list
    )  # what is left out, each with its place

    def __post_init__(self) -> None:
        self._pythons = self._serving_pythons()
        self._use_python(self._pythons[0])
        own = self.target.pip.requirements
        self._own = {requirement_name(text): Requirement(text) for text in own}
        self._torch = str(self._own["torch"].specifier).removeprefix("==")
        self._index = self.target.pip.index_of("torch")
        self._open = (
            ""  # what the repository says of torch, where the resolver chooses it
        )

    def _serving_pythons(self) -> list[str]:
        """Return the Pythons that the repository takes, the nearest to the target's first."""
        shipped = self.target.python
        pythons = sorted(
            _TABLES["pythons"], key=lambda each: abs(_minor(each) - _minor(shipped))
        )
        serving = [each for each in pythons if _takes(self.requires_python, each)]
        if not serving:
            self.left.append(
                f"requires-python {self.requires_python}: no target has such a Python"
            )
        elif serving[0] != shipped:
            self.done.append(
                f"requires-python {self.requires_python}: Python {serving[0]} instead of {shipped}"
            )
        return serving or [shipped]

    def _use_python(self, python: str) -> None:
        if python != self.target.python:
            self.target = self.target.model_copy(update={"python_version": python})

    def fit(self, lines: Mapping[str, str], others: Mapping[str, str]) -> None:
        """Fit requirements."""
        every = {**lines, **others}
        for text in sorted(every, key=lambda text: requirement_name(text) != "torch"):
            asked = Requirement(text)
            if self._applies(asked):
                self._fit(asked, f"{every[text]}: {text}", in_file=text in lines)
                if text in lines:
                    self._override(asked, f"{every[text]} asks for {text}")
        said = {*map(requirement_name, self.requirements), *self.exclude}
        changed = self._open or f"=={self._torch}" != str(self._own["torch"].specifier)
        # The target pins those for its own torch, also where the repository does not name them.
        for name in sorted(self._own.keys() & _COMPANIONS - said) if changed else ():
            self._choose_companion(Requirement(name), self.target.name, in_file=True)
        for name in _TABLES["with_torch"] if every else ():
            if name != "torchaudio" or self._before("2.9"):
                self._assign(name)

    def _override(self, asked: Requirement, reason: str) -> None:
        """Let what was chosen for a target hold where a line of a file disagrees with it."""
        name = requirement_name(asked.name)
        chosen = [text for text in self.requirements if requirement_name(text) == name]
        own = self._own.get(name) if name == "torch" or name in _COMPANIONS else None
        for held in [Requirement(text) for text in chosen[-1:]] or (
            [own] if own else []
        ):
            if asked.specifier and not _agree(asked, held):
                self.overrides[str(held)] = reason

    def _applies(self, asked: Requirement) -> bool:
        machine = self.target.markers
        try:
            return asked.marker is None or asked.marker.evaluate(machine)
        except (
            ValueError
        ):  # a marker that compares what cannot be; the resolver says so
            return True

    def _fit(self, asked: Requirement, place: str, *, in_file: bool) -> None:
        name = requirement_name(asked.name)
        if why := self._no_use(name):
            # torch requires its own ones there, which nobody may exclude.
            of_torch = _matches(name, _TABLES["of_torch"])
            if not (in_file and of_torch and self.target.accelerator == "cuda"):
                self._leave_out(name, f"{place}: {why}", in_file=in_file)
        elif name == "torch":
            self._choose_torch(asked, place)
        elif name in _COMPANIONS and not asked.url:
            self._choose_companion(asked, place, in_file=in_file)
        elif name not in self._own:
            self.requirements += [] if in_file else [str(asked)]
        elif not in_file or not _agree(asked, self._own[name]):
            self.requirements.append(str(asked))
            self.done.append(
                f"{place} replaces {self._own[name]} of {self.target.name}"
            )

    def _no_use(self, name: str) -> str:
        for accelerator, patterns in _TABLES["only"].items():
            other = accelerator != self.target.accelerator and name not in self._own
            if other and _matches(name, patterns):
                return f"is of use on {accelerator} only"
        reasons = (
            entry.reason for entry in self.target.pip.forbid if entry.name == name
        )
        fits = "torch requires the release that fits it"
        return next(reasons, fits if _matches(name, _TABLES["of_torch"]) else "")

    def _leave_out(self, name: str, why: str, *, in_file: bool) -> None:
        self.left.append(why)
        self.exclude += [name] if in_file else []

    def _choose_torch(self, asked: Requirement, place: str) -> None:
        wanted = SpecifierSet(_LOCAL.sub("", str(asked.specifier)))
        if wanted.contains(Version(self._torch).public, prereleases=True):
            return
        if self._index == "default":
            self._open = str(wanted)
            self.requirements.append(f"torch{wanted}")
            self.done.append(
                f"{place} replaces torch=={self._torch} of {self.target.name}"
            )
            return
        for python in self._pythons:
            self._use_python(python)
            offered = {Version(wheel.version) for wheel in self._wheels("torch")}
            if fitting := {v for v in offered if wanted.contains(v.public)}:
                self._torch = str(max(fitting))
                self.requirements.append(f"torch=={self._torch}")
                break
        else:
            self._use_python(self._pythons[0])
        beside = ""
        if self.target.python != self._pythons[0]:
            beside = f", for which Python {self.target.python} has a wheel"
        self.done.append(f"{place}: torch=={self._torch} instead{beside}")

    def _choose_companion(
        self, asked: Requirement, place: str, *, in_file: bool
    ) -> None:
        """Choose the release of a package that was compiled for the chosen torch."""
        name = requirement_name(asked.name)
        if self._open:  # what the repository says of both goes together
            wanted = asked.specifier or (self._open if name == "torchaudio" else "")
            self.requirements.append(f"{name}{_LOCAL.sub('', str(wanted))}")
            return
        exact = {f"torch=={Version(self._torch).public}", f"torch=={self._torch}"}
        wheels = (
            (Version(w.version), w.requires_dist or ()) for w in self._wheels(name)
        )
        built = [
            v for v, needs in wheels if any(r.replace(" ", "") in exact for r in needs)
        ]
        one_for_all = name == "torchaudio" and not self._before("2.9")
        if not built and (
            one_for_all or self._index == "default"
        ):  # so the resolver chooses
            if name not in self._own and (
                asked.specifier or one_for_all or not in_file
            ):
                limit = f"<={Version(self._torch).public}" if one_for_all else ""
                self.requirements.append(f"{name}{limit}")
                self.done.append(f"{place}: any release that fits torch {self._torch}")
            return
        if not built:
            why = f"the catalog {self._index} has none for torch {self._torch}"
            self._leave_out(name, f"{place}: {why}", in_file=in_file)
            return
        chosen = f"{name}=={max(built)}"
        if name not in self._own or chosen != str(self._own[name]):
            self.requirements.append(chosen)
            self.done.append(f"{place}: {chosen}, for torch {self._torch}")
        self._assign(name)

    def _before(self, version: str) -> bool:
        return Version(self._torch) < Version(version)

    def _assign(self, name: str) -> None:
        known = name in self.index.get(self._index, ())
        if (
            not known
            and self.target.pip.index_of(name) != self._index
            and self._wheels(name)
        ):
            self.index.setdefault(self._index, []).append(name)

    def _wheels(self, name: str) -> list[Wheel]:
        """Return the wheels of torch's catalog that can be installed and locked."""
        if (index := self._index) == "default":
            return []
        found = load_snapshot(self.catalog, index, Index).of(name)
        where = self.target.machine
        return [w for w in found if not w.lacks and best_wheel([w.filename], *where)]


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def _takes(specifier: SpecifierSet, python: str) -> bool:
    """Return whether any patch release of a Python can be meant, such as 3.11.9 by >=3.11.4."""
    return any(specifier.contains(f"{python}.{patch}") for patch in (0, 99))


def _agree(asked: Requirement, own: Requirement) -> bool:
    """Whether both can be required, as far as that is plain."""
    both = asked.specifier & own.specifier
    ends = [specifier.version.removesuffix(".*") for specifier in both]
    return not own.specifier or not asked.specifier or any(map(both.contains, ends))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
