"""What ``[pip] files`` of a spec refers to: requirement files, pyproject.toml, environment.yml.

Options that choose an index are left out and named: the spec assigns each distribution to its own.
The format of pip: https://pip.pypa.io/en/stable/reference/requirements-file-format/.
"""

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from provision.core.errors import SpecError
from provision.core.hashing import sha256_bytes
from provision.core.limits import read_text
from provision.core.text import plural
from provision.spec.conda_environment import CONDA, conda_lines
from provision.spec.model import (
    ARCHIVE,
    Inputs,
    Target,
    index_requirement,
    parse_requirement,
    source_requirement,
)
from provision.spec.pyproject import (
    FAULTS,
    METADATA,
    Line,
    Pyproject,
    local_folder,
    own_package,
    read_pyproject,
    relative,
    texts_of,
    with_marker,
)
from provision.spec.uv_sources import (
    ARCHIVES,
    Source,
    Sources,
    is_virtual,
    sources_of,
)

_ENTRY = re.compile(
    r"(?P<path>(?:.*/)?pyproject\.toml)(?:\[(?P<extras>[\w., -]+)\]|:(?P<group>[\w.-]+))?"
)
_COMMENT = re.compile(r"(^|\s)#.*$")
_OPTION = re.compile(
    r"-(?:-(?=requirement\b|constraint\b|editable\b))?([rce])(?:equirement|onstraint|ditable)?"
    r"[\s=]*(.*)"
)
_PER_REQUIREMENT = re.compile(r"\s+--(?:hash|config-settings?|global-option)\b.*$")
# After a URL or a path, which may have semicolons itself.
_MARKER = re.compile(r"\s+;\s*|;\s+")
_OTHER_INDEX = ": ignored, as [pip.index] of the spec decides that"
_OF_SPECS = {"override-dependencies": "overrides", "exclude-dependencies": "exclude"}


@dataclass
class RequirementFiles:
    """The contents of files and of those that they include, for a target or for any."""

    root: Path
    target: Target | None = None
    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    # What each file says, in the order of reading; one that only constrains as well.
    said: dict[Path, list[str]] = field(default_factory=dict)
    _begun: set[tuple[Path, str]] = field(default_factory=set)

    @property
    def read(self) -> list[Path]:
        """The files that were read."""
        return list(self.said)

    @property
    def digests(self) -> dict[str, str]:
        """A digest of what each file says, by its path: of requirements, and of no comment."""
        found = {}
        for path, texts in self.said.items():
            digest = sha256_bytes("\n".join(texts).encode())
            found[relative(path, self.root)] = digest[:12]
        return found

    def add(self, entry: str) -> None:
        """Read an entry of ``[pip] files`` and what it includes, each file once."""
        found = _ENTRY.fullmatch(entry)
        path = (self.root / (found["path"] if found else entry)).resolve()
        try:
            if path.name == "pyproject.toml":
                extras = (found and found["extras"]) or ""
                group = (found and found["group"]) or ""
                self._read_pyproject(path, extras, group)
            elif path.suffix in {".yml", ".yaml"}:
                self._read_conda(path)
            elif path.suffix in {".toml", ".cfg", ".py", ".lock"}:
                kinds = "requirements file, pyproject.toml or environment.yml"
                self.faults.append(f"{path} is no {kinds}")
            else:
                self._read(path, constrains=False)
        except FAULTS as error:
            self.faults.append(str(error))

    @contextlib.contextmanager
    def _reading(self, path: Path, part: str) -> Iterator[bool]:
        """Report what keeps a file from being read as a ValueError; False where it was read."""
        new = (path, part) not in self._begun
        self._begun.add((path, part))
        if not path.is_relative_to(self.root) and not part.startswith("-e"):
            raise ValueError(f"{path} is outside the project {self.root}")
        self.said.setdefault(path, [])
        try:
            yield new
        except (OSError, *FAULTS) as error:
            reason = getattr(error, "strerror", None) or error
            if str(reason).startswith(f"{path}"):  # of a file that it includes
                raise
            raise ValueError(f"{path}: {reason}") from error

    @contextlib.contextmanager
    def _at(self, path: Path, number: int) -> Iterator[None]:
        """Give what is added its place, and what is wrong with it."""
        lists = (self.requirements, self.constraints, self.local)
        before = [len(texts) for texts in lists]
        place = f"{relative(path, self.root)}, line {number}"
        try:
            yield
        except FAULTS as error:
            self.faults.append(f"{path}, line {number}: {error}")
        for texts, start in zip(lists, before, strict=True):
            for text in texts[start:]:
                # Those of included files have their places already.
                if text not in self.places:
                    self.said[path].append(text)
                self.places.setdefault(text, place)

    # --- requirement files of pip -------------------------------------------------------------

    def _read(self, path: Path, *, constrains: bool) -> None:
        """Read a file; ValueError, which the line that includes it reports, if it cannot be."""
        with self._reading(path, "-c" if constrains else "-r") as new:
            lines = list(logical_lines(read_text(path))) if new else []
        for number, line in lines:
            with self._at(path, number):
                self._add_line(line, path, number, constrains=constrains)

    def _add_line(
        self, line: str, path: Path, number: int, *, constrains: bool = False
    ) -> None:
        if "${" in line:
            raise ValueError(f"{line!r} depends on a variable of the caller")
        option, text = _OPTION.fullmatch(line), _PER_REQUIREMENT.sub("", line)
        kind, value = option.groups() if option else ("", text)
        if kind in {"r", "c"}:
            if "://" in value:
                raise ValueError(
                    f"{line!r} is on a server; keep a copy of the file in the project"
                )
            self.said[path].append(line)
            included = (path.parent / value).resolve()
            self._read(included, constrains=constrains or kind == "c")
        elif constrains and not line.startswith("-"):
            self.constraints.append(index_requirement(text))
        elif line.startswith("-") and not kind:
            self.ignored.append(f"{path}, line {number}: {line}{_OTHER_INDEX}")
        else:
            self._add_requirement(kind, value, path.parent)

    def _add_requirement(self, kind: str, value: str, folder: Path) -> None:
        if not value:
            raise ValueError("-e names no folder")
        marker = ""
        is_path = value[0] in "./" or ("/" in value and (self.root / value).is_dir())
        if "://" in value or is_path or kind:
            value, *rest = _MARKER.split(value, maxsplit=1)
            marker = f" ; {rest[0]}" if rest else ""
        if re.match(r"[a-z+]+://", value):
            value, kind, is_path = f"{_name_in(value)} @ {value}", "", False
        if not (kind or is_path):
            self.requirements.append(source_requirement(value + marker))
        elif value.endswith(ARCHIVES):
            path = self._own_folder(value, folder)
            text = (
                f"{_name_of(path)} @ {ARCHIVE}{relative(self.root / path, self.root)}"
            )
            self.requirements.append(source_requirement(text + marker))
        elif not marker or self._applies(marker.removeprefix(" ; ")):
            place = self._own_folder(value, folder)
            self.local.append(f"-e {place}" if kind else place)

    def _applies(self, marker: str) -> bool:
        markers = Marker(marker)
        return self.target is None or markers.evaluate(
            {**self.target.markers, "extra": ""}
        )

    def _own_folder(self, text: str, beside: Path) -> str:
        """Return the folder of a package: of the project, as for pip, or beside the file."""
        name, bracket, extras = text.partition("[")
        for base in (self.root, beside):
            path = base / name
            if path.is_file() or any((path / each).is_file() for each in METADATA):
                if base != self.root:
                    name = relative((base / name).resolve(), self.root)
                break
        return f"{name}{bracket}{extras}"

    # --- environment.yml ------------------------------------------------------------------------

    def _read_conda(self, path: Path) -> None:
        with self._reading(path, "conda") as new:
            lines = list(conda_lines(path)) if new else []
        unused = []
        for line in lines:
            if line.part != CONDA:
                with self._at(path, line.number):
                    self._add_line(line.text, path, line.number)
            elif line.text != "pip":
                unused.append(line.text)
        if unused:
            names = ", ".join(unused)
            self.ignored.append(f"{path}: packages of conda are not used: {names}")

    # --- pyproject.toml -------------------------------------------------------------------------

    def _read_pyproject(self, path: Path, extras: str, group: str = "") -> None:
        with self._reading(path, f"[{extras}]:{group}") as new:
            if not new:
                return
            manifest = read_pyproject(path, self.root)
            sources = sources_of(manifest, self.root)
            self._read_settings(sources.root)
            if group:
                lines = list(manifest.group(group))
            else:
                lines = list(manifest.requirements(_split(extras)))
                self._judge_python(manifest)
        for line in lines:
            with self._at(path, line.number):
                if not self._follow(line, sources):
                    self.requirements.append(source_requirement(line.text))

    def _follow_package(self, path: Path, extras: str) -> None:
        """Add what the sources of an own package say, which no resolver is told."""
        with self._reading(path, f"-e [{extras}]") as new:
            if not new:
                return
            manifest = read_pyproject(path, self.root)
            sources = sources_of(manifest, self.root)
            self._read_settings(sources.root)
            # Without a build nobody knows which of them it needs.
            lines = [Line(s[0].number, name) for name, s in sources.by_name.items()]
            if manifest.says("dependencies"):
                lines = list(manifest.requirements(_split(extras)))
        for line in lines:
            with self._at(path, line.number):
                self._follow(line, sources)

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
        # One that is explicit serves only the sources that name it.
        names = [
            str(index.get("name") or index.get("url"))
            for index in manifest.uv.get("index", ())
            if not index.get("explicit")
        ]
        if names:
            number = manifest.line("tool.uv.index", "name", names[0])
            line = f"[[tool.uv.index]] {', '.join(names)}"
            self.ignored.append(f"{path}, line {number}: {line}{_OTHER_INDEX}")

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
        name = str(canonicalize_name(asked.name))
        kind = "" if name in self._decided else source.kind
        if kind in {"", "index"}:
            if kind and self.target and not is_assigned(self.target, name):
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
        folder = sources.folder(source)
        path = folder / "pyproject.toml"
        if path.is_file() and is_virtual(read_pyproject(path, self.root), source):
            self._read_pyproject(path, extras.strip("[]"))
            return True
        self._add_package(source, folder, extras)
        return True

    def _add_package(self, source: Source, folder: Path, extras: str) -> None:
        own = self.target.pip.local if self.target else ()
        for text in (*own, *self.local):
            if local_folder(text, self.root) == folder and extras in text:
                return
        editable = source.said.get("editable", source.kind == "workspace")
        place = f"{relative(folder, self.root)}{extras}"
        self.local.append(f"-e {place}" if editable else place)

    @functools.cached_property
    def _decided(self) -> set[str]:
        """The distributions of which the spec itself says where they come from."""
        if self.target is None:
            return set()
        pip = self.target.pip
        decided = {
            *pip.exclude,
            *(requirement_name(o.requirement) for o in pip.overrides),
        }
        for text in pip.requirements:
            if Requirement(text).url:
                decided.add(requirement_name(text))
        for text in pip.local:
            path = local_folder(text, self.root) / "pyproject.toml"
            if path.is_file():
                decided.add(read_pyproject(path, self.root).name)
        return decided

    def follow_packages(self) -> None:
        """Follow the sources of all own packages, and of those that they bring."""
        own = self.target.pip.local if self.target else ()
        for texts in (own, self.local):  # the second grows meanwhile
            for text in texts:
                folder = own_package(text, self.root)
                path = folder / "pyproject.toml" if folder else None
                try:
                    if path and path.is_file():
                        self._follow_package(path, text.partition("[")[2].rstrip("] "))
                except FAULTS as error:
                    self.faults.append(str(error))


def is_assigned(target: Target, name: str) -> bool:
    """Whether a spec itself says which index a distribution comes from, by asking for it too."""
    own = map(requirement_name, target.pip.requirements)
    return target.pip.index_of(name) != "default" or name in own


def _takes(said: str, python: str) -> bool:
    try:
        takes = SpecifierSet(said)
    except InvalidSpecifier:  # which a build refuses
        return True
    return any(takes.contains(f"{python}.{patch}") for patch in (0, 99))


def _split(extras: str) -> list[str]:
    return [name.strip() for name in extras.split(",") if name.strip()]


def with_files(target: Target, root: Path) -> Target:
    """Return a target with what its files require, and without what it excludes.

    Every line of every place holds: of two that disagree, none gives way. SpecError names all
    faults of the files at once.
    """
    files = RequirementFiles(root.resolve(), target)
    for entry in target.pip.files:
        files.add(entry)
    files.follow_packages()
    if files.faults:
        raise SpecError(
            f"the requirement files have {plural(len(files.faults), 'fault')}",
            evidence="\n".join(files.faults),
            remedy="correct each of them",
        )
    left: dict[str, list[str]] = {name: [] for name in target.pip.exclude}

    def together(own: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
        kept = []
        for text in dict.fromkeys([*own, *more]):
            if (name := requirement_name(text)) in left:
                left[name].append(files.places.get(text, "the spec"))
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
    return merged.with_inputs(Inputs((), files.digests, files.places, notes, left))


def requirement_name(text: str) -> str:
    """Return the normalised name of a requirement."""
    return str(canonicalize_name(Requirement(text).name))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the logical lines of a requirement file, each with the number of its last line."""
    begun = ""
    for number, line in enumerate(text.splitlines(), 1):
        begun += _COMMENT.sub("", line).strip()
        if begun.endswith("\\"):
            begun = f"{begun[:-1].rstrip()} "
        elif begun:
            yield number, begun
            begun = ""


def _name_of(path: str) -> str:
    """Return the distribution of a wheel or an sdist, which its file's name says."""
    filename = path.rpartition("/")[2]
    if filename.endswith(".whl"):
        return str(parse_wheel_filename(filename)[0])
    return str(parse_sdist_filename(filename)[0])


def _name_in(url: str) -> str:
    """Return the distribution that a bare URL names, in its fragment or in its last part."""
    parts = urlsplit(url)
    leaf = unquote(parts.path).rstrip("/").rpartition("/")[2].partition("@")[0]
    stem = (
        leaf.removesuffix(".git") if url.startswith("git+") else leaf.partition("-")[0]
    )
    return parse_qs(parts.fragment).get("egg", [stem])[0]
