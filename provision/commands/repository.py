"""What a repository asks for: requirement files, pyproject.toml and environment.yml."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from provision.core.limits import read_parsed
from provision.spec.requirement_files import RequirementFiles

Data = dict[str, Any]
_CONDA_PYTHON = re.compile(r"python\s*=+\s*(3\.\d+)[.\d*]*")
_DAMAGED = (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError)


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
    found = RequirementFiles(root := path.parent)
    found.add(path)
    # A file with a fault cannot be named by a spec, so the spec gets the lines without one.
    if found.faults:
        asked.requirements |= found.places
        asked.local += found.local
    else:
        asked.files.append(path.name)
        asked.lines |= found.places
    asked.left += [
        line.replace(f"{root}/", "") for line in (*found.faults, *found.ignored)
    ]
    return found.read


def _pyproject(path: Path, asked: Asked) -> None:
    name, document = path.name, read_parsed(path, tomllib.loads)
    project, uv = document.get("project", {}), document.get("tool", {}).get("uv", {})
    for text in project.get("dependencies", ()):
        _add(text, f"{name} [project] dependencies", asked, uv.get("sources", {}))
    extras = project.get("optional-dependencies", ())
    unused = [f"[project.optional-dependencies] {extra}" for extra in extras]
    unused += [
        f"[dependency-groups] {group}"
        for group in document.get("dependency-groups", ())
    ]
    asked.left += [
        f"{name} {part}: not used; a spec can have its requirements" for part in unused
    ]
    for index in uv.get("index", ()):
        named = f"[[tool.uv.index]] {index.get('name', '')} {index.get('url')}"
        asked.left.append(
            f"{name} {named}: not used; [pip.index] of a spec names catalogs"
        )
    if "poetry" in document.get("tool", {}) and not project:
        asked.left.append(
            f"{name} [tool.poetry]: not read; `poetry export` writes requirements"
        )
    if "build-system" in document and project and not asked.files:
        asked.left.append(
            f'{name}: the package itself; add `local = ["-e ."]` to [pip] for it'
        )
    # Last: what is wrong with it must not hide the dependencies.
    asked.requires_python &= SpecifierSet(project.get("requires-python", ""))


def _add(text: str, place: str, asked: Asked, sources: Data) -> None:
    try:
        required = Requirement(text)
    except InvalidRequirement as error:
        asked.left.append(f"{place}: {text!r} is not a requirement: {error}")
        return
    names = {str(canonicalize_name(key)): value for key, value in sources.items()}
    source = names.get(str(canonicalize_name(required.name)), {})
    if isinstance(source, dict) and (url := _url(source)):
        required.specifier, required.url = type(required.specifier)(), url
        asked.requirements[str(required)] = place
    elif isinstance(source, dict) and isinstance(source.get("path"), str):
        asked.local.append(f"{'-e ' if source.get('editable') else ''}{source['path']}")
    else:
        asked.requirements[text] = place
        if source:
            asked.left.append(
                f"pyproject.toml [tool.uv.sources] {required.name}: {source}"
            )


def _url(source: Data) -> str | None:
    if git := source.get("git"):
        at = source.get("rev") or source.get("tag") or source.get("branch")
        below = (
            f"#subdirectory={source['subdirectory']}"
            if "subdirectory" in source
            else ""
        )
        return f"git+{git}{f'@{at}' if at else ''}{below}"
    return source.get("url")


def _conda_environment(path: Path, asked: Asked) -> None:
    for entry in read_parsed(path, yaml.safe_load).get("dependencies") or ():
        if isinstance(entry, dict):
            for text in entry.get("pip") or ():
                if text.startswith("-e ") and "+" not in text:
                    asked.local.append(text)
                else:
                    _add(text, f"{path.name} pip", asked, {})
        elif python := _CONDA_PYTHON.fullmatch(entry):
            asked.requires_python &= SpecifierSet(f"=={python[1]}.*")
        elif entry != "pip":
            asked.left.append(
                f"{path.name}: {entry}: not used; what pip calls it can be added"
            )


_FILES = {
    "pyproject.toml": _pyproject,
    "environment.yml": _conda_environment,
    "environment.yaml": _conda_environment,
}
