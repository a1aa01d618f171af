"""What ``[pip] files`` of a spec refers to: requirement files, pyproject.toml, environment.yml.

Options that choose an index are left out and named: the spec assigns each distribution to its own.
"""

import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from provision.core.errors import SpecError
from provision.core.text import plural
from provision.spec.collected import OTHER_INDEX
from provision.spec.model import (
    Inputs,
    Target,
    index_requirement,
    parse_requirement,
    requirement_name,
    source_requirement,
)
from provision.spec.pip_files import PipFiles
from provision.spec.pyproject import (
    FAULTS,
    Line,
    Pyproject,
    local_folder,
    names_of_extras,
    own_package,
    relative,
    texts_of,
    with_marker,
)
from provision.spec.uv_sources import Source, Sources, Workspaces, is_virtual

_ENTRY = re.compile(
    r"(?P<path>(?:.*/)?pyproject\.toml)(?:\[(?P<extras>[\w., -]+)\]|:(?P<group>[\w.-]+))?"
)
_OF_SPECS = {"override-dependencies": "overrides", "exclude-dependencies": "exclude"}


class RequirementFiles(PipFiles):
    """The contents of files and of those that they include, for a target or for any."""

    def add(self, entry: str) -> None:
        """Read an entry of ``[pip] files`` and what it includes, each file once."""
        place, extras, group = entry, "", ""
        if match := _ENTRY.fullmatch(entry):
            place, extras, group = match.groups("")
        path = Path(os.path.realpath(self.root / place))
        try:
            if path.name == "pyproject.toml":
                self._read_pyproject(path, extras, group)
            elif path.suffix in {".yml", ".yaml"}:
                self._read_conda(path)
            elif path.suffix in {".toml", ".cfg", ".py", ".lock"}:
                kinds = "requirements file, pyproject.toml or environment.yml"
                self.faults.append(f"{path} is no {kinds}")
            else:
                self._read(path, constrains=False)
        except (OSError, *FAULTS) as error:
            self.faults.append(str(error))

    def _read_pyproject(self, path: Path, extras: str, group: str = "") -> None:
        with self._reading(path, f"[{extras}]:{group}") as new:
            if not new:
                return
            manifest = self._workspaces.read(path)
            sources = self._workspaces.sources_of(manifest)
            self._read_settings(sources.root)
            if group:
                lines = list(manifest.group(group))
            else:
                lines = list(manifest.requirements(names_of_extras(extras)))
                self._judge_python(manifest)
        for line in lines:
            with self._at(path, line.number):
                if not self._follow(line, sources):
                    self.requirements.append(source_requirement(line.text))

    def _follow_package(self, path: Path, extras: str) -> None:
        """Add what the sources of an own package say, which no resolver reads."""
        with self._reading(path, f"-e [{extras}]") as new:
            if not new:
                return
            manifest = self._workspaces.read(path)
            sources = self._workspaces.sources_of(manifest)
            self._read_settings(sources.root)
            lines = list[Line]()
            says_extras = not extras or manifest.says("optional-dependencies")
            if manifest.says("dependencies"):
                names = names_of_extras(extras) if says_extras else []
                lines += manifest.requirements(names)
            if not (manifest.says("dependencies") and says_extras):
                # Only a build tells which of them it needs.
                for name, said in sources.by_name.items():
                    lines.append(Line(said[0].number, name))
        for line in lines:
            with self._at(path, line.number):
                if self._follow(line, sources) or not parse_requirement(line.text).url:
                    continue
                # What it takes from a URL is built like what a spec names.
                if requirement_name(line.text) not in self._decided:
                    self.requirements.append(source_requirement(line.text))

    def _judge_python(self, manifest: Pyproject) -> None:
        """Say where a project does not take the Python of the target, whatever patch it is."""
        said = str(manifest.project.get("requires-python", ""))
        python = self.target.python if self.target else ""
        if python and not _takes(said, python):
            number = manifest.line("project", "requires-python")
            self.ignored.append(
                f"{manifest.path}, line {number}: requires-python {said}: the target "
                f"has Python {python}; `python` of a spec says which"
            )

    def _read_settings(self, manifest: Pyproject) -> None:
        """Add the constraints of uv; name what else of its settings no lock reads."""
        path, key = manifest.path, "constraint-dependencies"
        if (path, key) in self._begun:
            return
        self._begun.add((path, key))
        self.said.setdefault(path, [])
        for text in texts_of(manifest.uv, key):
            with self._at(path, manifest.line("tool.uv", key, text)):
                self.constraints.append(index_requirement(text))
        for key, instead in _OF_SPECS.items():
            for text in texts_of(manifest.uv, key):
                if requirement_name(text) not in self._decided:
                    number = manifest.line("tool.uv", key, text)
                    self.ignored.append(
                        f"{path}, line {number}: {key} {text}: not used; "
                        f"`{instead}` of a spec does that"
                    )
        self._ignore_indexes(manifest)

    def _ignore_indexes(self, manifest: Pyproject) -> None:
        # One that is explicit serves only the sources that name it.
        names = []
        for index in manifest.uv.get("index", ()):
            if not index.get("explicit"):
                names.append(str(index.get("name") or index.get("url")))
        if names:
            number = manifest.line("tool.uv.index", "name", names[0])
            line = f"[[tool.uv.index]] {', '.join(names)}"
            place = f"{manifest.path}, line {number}"
            self.ignored.append(f"{place}: {line}{OTHER_INDEX}")

    def _follow(self, line: Line, sources: Sources) -> bool:
        """Add a requirement from where its sources say; False where it comes from its index."""
        asked = parse_requirement(line.text)
        if asked.marker and not self._applies(str(asked.marker)):
            return False
        markers = self.target.markers if self.target else None
        followed = False
        for source in sources.of(line, markers):
            self.said.setdefault(source.manifest.path, []).append(repr(source.said))
            try:
                followed |= self._follow_source(asked, source, sources)
            except FAULTS as error:
                place = relative(source.manifest.path, self.root)
                raise ValueError(
                    f"{asked.name}: its source, {place}, line {source.number}, cannot "
                    f"be followed: {error}"
                ) from error
        return followed

    def _follow_source(
        self, asked: Requirement, source: Source, sources: Sources
    ) -> bool:
        name = canonicalize_name(asked.name)
        if name in self._decided:
            return False
        if source.kind == "index":
            if self.target and not _is_assigned(self.target, name):
                raise ValueError(
                    f"no index is assigned to {name}; write `[pip.index] CATALOG = "
                    f'["{name}"]` into the spec, or for the default index '
                    f'`requirements = ["{name}"]`'
                )
            return False
        extras = f"[{','.join(sorted(asked.extras))}]" if asked.extras else ""
        if url := source.url or sources.archive(source, self.root):
            text = f"{asked.name}{extras} @ {url}"
            for marker in (asked.marker, source.said.get("marker")):
                text = with_marker(text, str(marker or ""))
            self.requirements.append(source_requirement(text))
            return True
        folder = sources.folder(source, self.root)
        path = folder / "pyproject.toml"
        if path.is_file() and is_virtual(self._workspaces.read(path), source):
            self._read_pyproject(path, extras.strip("[]"))
            return True
        self._add_package(source, folder, extras)
        return True

    def _add_package(self, source: Source, folder: Path, extras: str) -> None:
        own = self.target.pip.local if self.target else ()
        for text in (*own, *self.local):
            if extras in text and self._folder_of(text) == folder:
                return
        editable = source.said.get("editable", source.kind == "workspace")
        place = f"{relative(folder, self.root)}{extras}"
        self.local.append(f"-e {place}" if editable else place)

    @functools.cached_property
    def _folder_of(self) -> Callable[[str], Path]:
        # Each is asked for as often as there are others.
        return functools.cache(functools.partial(local_folder, root=self.root))

    @functools.cached_property
    def _workspaces(self) -> Workspaces:
        return Workspaces(self.root)

    @functools.cached_property
    def _decided(self) -> set[str]:
        """The distributions of which the spec itself says where they come from."""
        if self.target is None:
            return set()
        pip = self.target.pip
        decided = set(pip.exclude)
        for override in pip.overrides:
            decided.add(requirement_name(override.requirement))
        for text in pip.requirements:
            if Requirement(text).url:
                decided.add(requirement_name(text))
        for text in pip.local:
            path = local_folder(text, self.root) / "pyproject.toml"
            if path.is_file():
                decided.add(self._workspaces.read(path).name)
        return decided

    def follow_packages(self, own: Sequence[str]) -> None:
        """Follow the sources of all own packages, and of those that they require."""
        for texts in (own, self.local):  # the second grows meanwhile
            for text in texts:
                try:
                    folder = own_package(text, self.root)
                    path = folder / "pyproject.toml" if folder else None
                    if path and path.is_file():
                        self._follow_package(path, text.partition("[")[2].rstrip("] "))
                except (OSError, *FAULTS) as error:
                    self.faults.append(str(error))


def _is_assigned(target: Target, name: str) -> bool:
    """Whether a spec itself says which index a distribution comes from, by asking for it too."""
    if target.pip.index_of(name) != "default":
        return True
    return name in map(requirement_name, target.pip.requirements)


def _takes(said: str, python: str) -> bool:
    try:
        takes = SpecifierSet(said)
    except InvalidSpecifier:  # which a build refuses
        return True
    return any(takes.contains(f"{python}.{patch}") for patch in (0, 99))


def with_files(target: Target, root: Path) -> Target:
    """Return a target with what its files require, and without what it excludes.

    Every line of every place holds: of two that disagree, none is overridden. SpecError names all
    errors of the files at once.
    """
    files = RequirementFiles(root.resolve(), target)
    for entry in target.pip.files:
        files.add(entry)
    files.follow_packages(target.pip.local)
    if files.faults:
        raise SpecError(
            f"the requirement files have {plural(len(files.faults), 'error')}",
            evidence="\n".join(files.faults),
            remedy="correct each of them",
        )
    places = files.limits | files.places
    left: dict[str, list[str]] = {name: [] for name in target.pip.exclude}

    def together(own: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
        kept = []
        for text in dict.fromkeys([*own, *more]):
            if (name := requirement_name(text)) in left:
                left[name].append(places.get(text, "the spec"))
            else:
                kept.append(text)
        return tuple(kept)

    pip = target.pip
    merged = target.with_pip(
        requirements=together(pip.requirements, files.requirements),
        constraints=together(pip.constraints, files.constraints),
        local=tuple(dict.fromkeys([*pip.local, *files.local])),
    )
    notes = tuple(files.ignored)
    inputs = Inputs((), files.digests, places, notes, left, files.limits)
    return merged.with_inputs(inputs)
