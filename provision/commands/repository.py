"""What a repository asks for: requirement files, pyproject.toml and environment.yml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision.core.limits import read_parsed
from provision.spec.requirement_files import RequirementFiles

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Data = dict[str, Any]


@dataclass
class Asked:
    """What a repository asks for."""

    files: list[str] = field(default_factory=list)  # requirement files that a spec can name
    lines: dict[str, str] = field(default_factory=dict)  # their requirements, each with its place
    requirements: dict[str, str] = field(default_factory=dict)  # others, each with its place
    local: list[str] = field(default_factory=list)  # its own packages that a spec can name
    left: list[str] = field(default_factory=list)  # what no spec can hold, each with its place

    @property
    def any(self) -> bool:
        """Whether a spec gets anything of it."""
        return bool(self.files or self.requirements or self.local)


def read_repository(root: Path) -> Asked:
    """Read what a repository asks for; what cannot be read is listed, not raised."""
    asked = Asked()
    files, read = sorted(root.resolve().glob("requirements*.txt")), []
    if (root / "requirements.txt").is_file():
        read = _requirement_file(root.resolve() / "requirements.txt", asked)
    path = root / "pyproject.toml"
    if path.is_file():
        try:
            _pyproject(read_parsed(path, tomllib.loads), asked)
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            asked.left.append(f"pyproject.toml: cannot be read: {error}")
    for name in ("environment.yml", "environment.yaml"):
        if (root / name).is_file():
            _conda_environment(root / name, asked)
    if len(files) == 1 and not (read or asked.any):  # the repository says nothing else
        read = _requirement_file(files[0], asked)
    asked.left += [f'{file.name}: not used; add "{file.name}" to [pip] files if needed'
                   for file in files if file not in read]  # fmt: skip
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
    asked.left += [line.replace(f"{root}/", "") for line in (*found.faults, *found.ignored)]
    return found.read


def _pyproject(document: Data, asked: Asked) -> None:
    name = "pyproject.toml"
    project, uv = document.get("project", {}), document.get("tool", {}).get("uv", {})
    sources = uv.get("sources", {})
    for text in project.get("dependencies", ()):
        _add(text, f"{name} [project] dependencies", asked, sources)
    extras = project.get("optional-dependencies", {})
    asked.left += [f"{name} [project.optional-dependencies] {extra}: not used; its requirements "
                   "can be added to the spec" for extra in extras]  # fmt: skip
    asked.left += [f"{name} [dependency-groups] {group}: not used; its requirements can be added "
                   "to the spec" for group in document.get("dependency-groups", {})]  # fmt: skip
    for index in uv.get("index", ()):
        asked.left.append(
            f"{name} [[tool.uv.index]] {index.get('name', '')} {index.get('url')}: not used; "
            "[pip.index] of a spec names catalogs"
        )
    if "poetry" in document.get("tool", {}) and not project:
        asked.left.append(
            f"{name} [tool.poetry]: not read; `poetry export -o requirements.txt` writes what is"
        )
    if "build-system" in document and project and not asked.files:
        asked.left.append(f'{name}: the package itself; add `local = ["-e ."]` to [pip] for it')


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
            asked.left.append(f"pyproject.toml [tool.uv.sources] {required.name}: {source}")


def _url(source: Data) -> str | None:
    if git := source.get("git"):
        at = source.get("rev") or source.get("tag") or source.get("branch")
        below = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
        return f"git+{git}{f'@{at}' if at else ''}{below}"
    return source.get("url")


def _conda_environment(path: Path, asked: Asked) -> None:
    import yaml  # noqa: PLC0415 - slow, and few repositories have such a file

    try:
        document = read_parsed(path, yaml.safe_load)
        dependencies: Iterable[Any] = document.get("dependencies") or ()
        for entry in dependencies:
            if isinstance(entry, dict):
                _pip_of_conda(entry.get("pip") or (), path.name, asked)
            elif re.match(r"python\b", entry):
                asked.left.append(f"{path.name}: {entry}: the target's Python is used instead")
            elif entry != "pip":
                asked.left.append(f"{path.name}: {entry}: add what pip calls it to the spec")
    except (OSError, ValueError, yaml.YAMLError, AttributeError, TypeError) as error:
        asked.left.append(f"{path.name}: cannot be read: {error}")


def _pip_of_conda(lines: Iterable[str], name: str, asked: Asked) -> None:
    for text in lines:
        if editable := re.match(r"(-e|--editable)[\s=]+(?!\w+\+)", text):
            asked.local.append(f"-e {text[editable.end() :]}")
        elif text.startswith("-"):
            asked.left.append(f"{name} pip: {text}: not used")
        else:
            _add(text, f"{name} pip", asked, {})
