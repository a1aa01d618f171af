"""What a repository asks for: requirement files, pyproject.toml and environment.yml."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from packaging.specifiers import SpecifierSet

from provision.spec.conda_environment import CONDA, conda_lines
from provision.spec.pyproject import read_pyproject
from provision.spec.requirement_files import RequirementFiles

_CONDA_PYTHON = re.compile(r"python\s*=+\s*(3\.\d+)[.\d*]*")
_DAMAGED = (OSError, ValueError, TypeError, AttributeError, KeyError)


@dataclass
class Asked:
    """What a repository asks for."""

    files: list[str] = field(
        default_factory=list
    )  # requirement files that a spec can name
    lines: dict[str, str] = field(
        default_factory=dict
    )  # their requirements, each with its place
    requirements: dict[str, str] = field(
        default_factory=dict
    )  # others, each with its place
    local: list[str] = field(
        default_factory=list
    )  # its own packages that a spec can name
    requires_python: SpecifierSet = field(default_factory=SpecifierSet)
    left: list[str] = field(
        default_factory=list
    )  # what no spec can hold, each with its place


def read_repository(root: Path) -> Asked:
    """Read what a repository asks for; what cannot be read is listed, not raised."""
    asked = Asked()
    files, seen = sorted(root.resolve().glob("requirements*.txt")), []
    if (root / "requirements.txt").is_file():
        seen = _requirement_file(root.resolve() / "requirements.txt", asked)
    for name, read in _FILES.items():
        if (root / name).is_file():
            try:
                read(root / name, asked)
            except _DAMAGED as error:
                asked.left.append(f"{name}: cannot be read: {error}")
    if len(files) == 1 and not (
        seen or asked.requirements or asked.local
    ):  # it says nothing else
        seen = _requirement_file(files[0], asked)
    asked.left += [
        f'{file.name}: not used; add "{file.name}" to [pip] files if needed'
        for file in files
        if file not in seen
    ]
    return asked


def _requirement_file(path: Path, asked: Asked) -> list[Path]:
    found = RequirementFiles(path.parent)
    found.add(path.name)
    # A file with a fault cannot be named by a spec, so the spec gets the lines without one.
    if found.faults:
        asked.requirements |= _lines(found)
        asked.local += found.local
    else:
        asked.files.append(path.name)
        asked.lines |= _lines(found)
    _leave(found, asked)
    return found.read


def _lines(found: RequirementFiles) -> dict[str, str]:
    return {text: found.places[text] for text in found.requirements}


def _leave(found: RequirementFiles, asked: Asked) -> None:
    for line in (*found.faults, *found.ignored):
        asked.left.append(line.replace(f"{found.root}/", ""))


def _pyproject(path: Path, asked: Asked) -> None:
    name, manifest = path.name, read_pyproject(path, path.parent)
    found = RequirementFiles(path.parent.resolve())
    found.add(name)
    asked.requirements |= _lines(found)
    asked.local += found.local
    if manifest.project:
        _leave(found, asked)
    extras = manifest.extras.values()
    unused = [f"[project.optional-dependencies] {extra}" for extra in extras]
    unused += [
        f"[dependency-groups] {group}"
        for group in manifest.document.get("dependency-groups", ())
    ]
    asked.left += [
        f"{name} {part}: not used; a spec can have its requirements" for part in unused
    ]
    for index in manifest.uv.get("index", ()):
        named = f"[[tool.uv.index]] {index.get('name', '')} {index.get('url')}"
        asked.left.append(
            f"{name} {named}: not used; [pip.index] of a spec names catalogs"
        )
    if "poetry" in manifest.document.get("tool", {}) and not manifest.project:
        asked.left.append(
            f"{name} [tool.poetry]: not read; `poetry export` writes requirements"
        )
    if "build-system" in manifest.document and manifest.project and not asked.files:
        asked.left.append(
            f'{name}: the package itself; add `local = ["-e ."]` to [pip] for it'
        )
    # Last: what is wrong with it must not hide the dependencies.
    asked.requires_python &= SpecifierSet(manifest.project.get("requires-python", ""))


def _conda_environment(path: Path, asked: Asked) -> None:
    found = RequirementFiles(path.parent.resolve())
    found.add(path.name)
    asked.requirements |= _lines(found)
    asked.local += found.local
    found.ignored = [line for line in found.ignored if "packages of conda" not in line]
    _leave(found, asked)
    for line in conda_lines(path):
        if line.part != CONDA:
            continue
        if python := _CONDA_PYTHON.fullmatch(line.text):
            asked.requires_python &= SpecifierSet(f"=={python[1]}.*")
        elif line.text != "pip":
            asked.left.append(
                f"{path.name}: {line.text}: not used; what pip calls it can be added"
            )


_FILES = {
    "pyproject.toml": _pyproject,
    "environment.yml": _conda_environment,
    "environment.yaml": _conda_environment,
}
