"""What a repository requires: which files `init` takes where nobody names one, and what they say."""

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from provision.commands.find_files import accelerators_named
from provision.commands.new_specs import BASE
from provision.commands.wanted import Wanted
from provision.core.errors import UsageError
from provision.core.limits import is_inside, read_text, require_inside
from provision.core.text import plural
from provision.spec.conda_environment import CONDA, conda_lines
from provision.spec.model import requirement_name
from provision.spec.pyproject import (
    FAULTS,
    Pyproject,
    own_package,
    read_pyproject,
    relative,
    table,
)
from provision.spec.requirement_files import RequirementFiles

CONDA_SUFFIXES = {".yml", ".yaml"}
_USUAL = ("requirements.txt", "pyproject.toml", "environment.yml", "environment.yaml")
# A package of conda: its channel, its name, and which versions of it.
_CONDA = re.compile(r"(?:[\w./-]+::)?(?P<name>[\w.-]+)\s*(?P<versions>[^\[]*)")
# One version, with what follows of any, and a build string, which tells nothing here.
_ONE = re.compile(r"(?P<equal>={0,2})\s*(?P<version>\d[\w.]*?)(?:\.?\*)?(?:[=\s].*)?")
# What pip calls a package of conda, where torch decides on its release.
_TORCH_FAMILY = {
    "pytorch": "torch",
    "pytorch-gpu": "torch",
    "pytorch-cpu": "torch",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
    "xformers": "xformers",
}
# Each environment has these, or torch requires them.
_COMES_ALONG = {"pip", "pytorch-cuda", "pytorch-mutex", "cudatoolkit", "cuda-version"}
_BUILD_TELLS = "only its build tells what it depends on"
# A build that needs one of these compiles: it takes minutes, and a compiler.
_COMPILING = {
    "cmake",
    "cython",
    "maturin",
    "meson-python",
    "nanobind",
    "ninja",
    "pybind11",
    "scikit-build-core",
    "setuptools-rust",
    "torch",
}


@dataclass
class Required:
    """What a repository requires."""

    files: list[str]  # as `[pip] files` of a spec names them
    local: list[str] = field(default_factory=list)  # the packages of its own
    conda: list[Wanted] = field(default_factory=list)  # which no lock reads
    requires_python: SpecifierSet = field(default_factory=SpecifierSet)
    left: list[str] = field(default_factory=list)  # to do by hand, each with its place
    skipped: list[str] = field(default_factory=list)  # files that nobody chose
    unreadable: bool = False  # something that is not read may require more

    @property
    def is_empty(self) -> bool:
        """Whether there may be requirements, and none was found."""
        if self.files or self.local or self.conda:
            return False
        return bool(self.skipped or self.unreadable)


def usual_files(root: Path, candidates: Sequence[str]) -> list[str]:
    """Return the files to refer to where nobody names one; those at the root, or the only one."""
    telling = [name for name in candidates if _tells_anything(root / name, root)]
    usual = [name for name in _USUAL if name in telling]
    if usual:
        return usual
    nearest = []
    for name in telling:
        if name.count("/") == telling[0].count("/"):
            nearest.append(name)
    return nearest if len(nearest) == 1 else []


def _tells_anything(path: Path, root: Path) -> bool:
    """Whether a file has a line for pip; of a list of requirements its name is enough."""
    try:
        require_inside(path, root)
        if path.name == "pyproject.toml":
            manifest = read_pyproject(path, path.parent)
            return "dependencies" in manifest.project
        if path.suffix in CONDA_SUFFIXES:
            return any(line.part != CONDA for line in conda_lines(path))
    except (OSError, *FAULTS):  # said by whoever reads it
        return False
    return True


def with_parts(
    root: Path, files: Sequence[str], extras: Sequence[str], groups: Sequence[str]
) -> list[str]:
    """Return files with extras and groups of the pyproject.toml among them, or at the root.

    UsageError where it has none of that name.
    """
    if not (extras or groups):
        return list(files)
    named = [file for file in files if file.endswith("pyproject.toml")]
    place = named[0] if named else "pyproject.toml"
    try:
        manifest = read_pyproject(root / place, root)
        for group in groups:
            list(manifest.group(group))
        if extras:
            list(manifest.requirements(extras))
    except (OSError, *FAULTS) as error:
        raise UsageError(
            f"{place}: {getattr(error, 'strerror', '') or error}",
            remedy="name extras and groups of the pyproject.toml",
        ) from error
    entries = [file for file in files if file != place]
    common = [extra for extra in extras if not accelerators_named(f"[{extra}]")]
    if common:
        entries.append(f"{place}[{','.join(common)}]")
    elif named:
        entries.append(place)
    entries += [f"{place}[{extra}]" for extra in extras if extra not in common]
    entries += [f"{place}:{group}" for group in groups]
    return entries


def read_lines(root: Path, files: Sequence[str]) -> list[Wanted]:
    """Read the requirements of files, as a spec names them, with those of what they include."""
    reader = _read(root.resolve(), files)
    lines = []
    with_index = set(_with_index(reader))
    places = [(text, reader.places[text]) for text in reader.requirements]
    places += [(text, reader.limits[text]) for text in reader.constraints]
    for text, place in places:
        has_index = requirement_name(text) in with_index
        lines.append(Wanted(Requirement(text), place, has_index=has_index))
    return lines


def _with_index(reader: RequirementFiles) -> Iterator[str]:
    """Yield the distributions that pyproject.toml takes from indexes of uv."""
    for path in reader.read:
        if path.name != "pyproject.toml":
            continue
        with contextlib.suppress(OSError, *FAULTS):  # said by the reader
            manifest = read_pyproject(path, reader.root)
            for name, sources in table(manifest.uv, "sources").items():
                tables = sources if isinstance(sources, list) else [sources]
                if any("index" in source for source in tables):
                    yield str(canonicalize_name(name))


def _read(root: Path, files: Sequence[str]) -> RequirementFiles:
    reader = RequirementFiles(root)
    for entry in files:
        reader.add(entry)
    return reader


def read_repository(
    root: Path, files: Sequence[str], candidates: Sequence[str], *, whole: bool
) -> Required:
    """Read what a repository requires; what cannot be read is listed, not raised.

    ``candidates``: all files that may say so; ``whole``: also what its root says beside ``files``.
    """
    root = root.resolve()
    required = Required(list(files))
    reader = _read(root, files)
    required.left += _not_read(reader)
    required.unreadable = bool(reader.faults)
    paths = dict.fromkeys(reader.read)
    if whole:
        paths |= dict.fromkeys(root / name for name in _USUAL if name in candidates)
    packages = {own_package(text, root) for text in reader.local}
    for path in paths:
        fault = _read_metadata(
            path, root, required, is_included=path.parent in packages
        )
        if fault and path not in reader.read:
            required.left.append(fault)
    if whole and root not in packages:
        required.left += _old_package(root)
    # Which Python the repository takes holds for each of its files.
    for path in dict.fromkeys([*paths, root / "pyproject.toml"]):
        _read_python(path, root, required)
    for name in candidates:
        path = root / name
        is_read = path in paths or path.parent in packages
        if not is_read and _tells_anything(path, root):
            required.skipped.append(relative(path, root))
    return required


def _not_read(reader: RequirementFiles) -> Iterator[str]:
    """Yield what cannot be read of requirements, with paths from the root."""
    # What is said of conda's packages elsewhere is more exact.
    of_conda = tuple(f"{path}: packages of conda" for path in reader.read)
    for line in (*reader.faults, *reader.ignored):
        if not line.startswith(of_conda):
            yield line.replace(f"{reader.root}/", "")


def _read_metadata(
    path: Path, root: Path, required: Required, *, is_included: bool
) -> str:
    """Read what a file says beside its requirements; return what keeps it from being read."""
    try:
        require_inside(path, root)
        if path.suffix in CONDA_SUFFIXES:
            _read_conda(path, required)
        elif path.name == "pyproject.toml":
            _read_package(path, root, required, is_included=is_included)
    except (OSError, *FAULTS) as error:
        required.unreadable = True
        return f"{relative(path, root)}: cannot be read: {error}"
    return ""


def _old_package(root: Path) -> Iterator[str]:
    """Yield what to do where setup.py or setup.cfg alone make the repository a package."""
    path = root / "pyproject.toml"
    with contextlib.suppress(OSError, *FAULTS):
        if path.is_file() and read_pyproject(path, root).project:
            return
        for name, mark in (("setup.py", "setup("), ("setup.cfg", "[metadata]")):
            path = root / name
            if path.is_file() and is_inside(path, root) and mark in read_text(path):
                yield f"{name}: {_not_installed(_BUILD_TELLS, '-e .')}"
                return


def _not_installed(why: str, local: str) -> str:
    does = f'`local = ["{local}"]` in {BASE} does it'
    return f"the package itself is not installed, as {why}; {does}"


def _read_package(
    path: Path, root: Path, required: Required, *, is_included: bool
) -> None:
    """Read the package of a pyproject.toml, and what else it could require.

    ``is_included``: a file names the package already.
    """
    place = relative(path, root)
    manifest = read_pyproject(path, root)
    required.left += _unused_parts(manifest, place, required.files)
    if "poetry" in manifest.document.get("tool", {}) and not manifest.project:
        required.left.append(
            f"{place} [tool.poetry]: not read; `poetry export` writes requirements"
        )
        required.unreadable = True
    local = f"-e {path.parent.relative_to(root).as_posix()}"
    is_package = manifest.uv.get("package", "build-system" in manifest.document)
    if is_included or not (is_package and manifest.name):
        return
    why = _hard_to_build(manifest)
    if why:
        required.left.append(f"{place}: {_not_installed(why, local)}")
    else:
        required.local.append(local)


def _read_python(path: Path, root: Path, required: Required) -> None:
    if path.name != "pyproject.toml" or not path.is_file():
        return
    try:
        text = read_pyproject(path, root).project.get("requires-python", "")
        required.requires_python &= SpecifierSet(text)
    except InvalidSpecifier as error:
        place = relative(path, root)
        required.left.append(f"{place}: requires-python: {error}")
    except (OSError, *FAULTS):  # said where the rest of it is read
        return


def _hard_to_build(manifest: Pyproject) -> str:
    if not manifest.says("dependencies"):
        return _BUILD_TELLS
    needs = manifest.document.get("build-system", {}).get("requires", ())
    names = {str(canonicalize_name(Requirement(text).name)) for text in needs}
    compiling = sorted(names & _COMPILING)
    return f"its build compiles with {', '.join(compiling)}" if compiling else ""


def _unused_parts(
    manifest: Pyproject, place: str, files: Sequence[str]
) -> Iterator[str]:
    """Yield what extras and groups there are that no file of the spec names."""
    taken = re.split(r"[\[\],:\s]+", " ".join(files))
    extras = manifest.extras.values()
    groups = manifest.document.get("dependency-groups", {})
    kinds = (("extras", extras, f"{place}[NAME]"), ("groups", groups, f"{place}:NAME"))
    for kind, names, form in kinds:
        unused = [name for name in names if name not in taken]
        if unused:
            yield (
                f"{place}: {kind} not used: {', '.join(unused)}; "
                f'`files = ["{form}"]` in {BASE} or in one spec takes one'
            )


def _read_conda(path: Path, required: Required) -> None:
    """Read of conda's packages the Python and the family of torch; list the others."""
    others = []
    for line in conda_lines(path):
        parts = _CONDA.fullmatch(line.text.strip())
        if line.part != CONDA or not parts:
            continue
        name = parts["name"].lower()
        try:
            versions = _versions(parts["versions"].strip())
        except InvalidSpecifier as error:
            required.left.append(f"{path.name}, line {line.number}: {error}")
            continue
        if name == "python":
            required.requires_python &= _minor_of(versions)
        elif name in _TORCH_FAMILY:
            requirement = Requirement(f"{_TORCH_FAMILY[name]}{versions}")
            place = f"{path.name}, line {line.number}"
            required.conda.append(Wanted(requirement, place, holds=False))
        elif name not in _COMES_ALONG:
            others.append(name)
    if others:
        count = plural(len(others), "package")
        required.left.append(
            f"{path.name}: {count} of conda not used: {', '.join(others)}; "
            "what pip calls them can be added to its pip part"
        )


def _versions(text: str) -> SpecifierSet:
    """Return what conda's versions are in the notation of pip; InvalidSpecifier if they are none."""
    pin = _ONE.fullmatch(text)
    if pin:
        is_exact = pin["equal"] == "==" and "*" not in text
        end = "" if is_exact else ".*"
        return SpecifierSet(f"=={pin['version']}{end}")
    ranges = re.sub(r"([<>=!~,|])\s+", r"\1", text)  # a build string may follow
    return SpecifierSet(ranges.partition(" ")[0])


def _minor_of(versions: SpecifierSet) -> SpecifierSet:
    """Return Pythons without their patch releases, which an environment's Python may have any of."""
    text = re.sub(r"==(3\.\d+)[\d.*]*", r"==\1.*", str(versions))
    return SpecifierSet(text)


def not_used(required: Required, names: Sequence[str]) -> Iterator[str]:
    """Yield the files that nobody chose, and the command that takes one of them."""
    paths = required.skipped
    if not paths:
        return
    if not required.is_empty:
        more = f" and {len(paths) - 3} more" if paths[3:] else ""
        yield (
            f"{', '.join(paths[:3])}{more}: not used; `provision add TARGET -r FILE` "
            f"takes one, or a line in `files` of {BASE}"
        )
        return
    folders = defaultdict[str, list[str]](list)
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders[f"{folder}/: " if folder else ""].append(name)
    for folder, files in folders.items():
        yield f"{folder}{', '.join(files)}: not used"
    likely = [path for path in paths if path.startswith("requirements")] or paths
    targets = "".join(f" --target {name}" for name in names)
    yield f"name what you need, such as `provision init {likely[0]}{targets}`"
