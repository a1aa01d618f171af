"""The project's own packages: what their pyproject.toml says of them, line by line."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from provision.core.errors import SpecError
from provision.core.text import plural
from provision.spec.model import Target
from provision.spec.places import Line, read_places
from provision.spec.pyproject import (
    FAULTS,
    METADATA,
    Pyproject,
    has_metadata,
    local_folder,
    names_of_extras,
    read_pyproject,
)
from provision.spec.submodules import not_fetched


class OwnPackage(NamedTuple):
    """An own package; its name and its lines are empty where only a build tells them."""

    text: str  # of `[pip] local`, or as a resolver gets it: `-e file:///…`
    name: str = ""
    lines: tuple[Line, ...] = ()
    is_static: bool = False  # whether its file says all that it requires

    def line(self, name: str) -> Line | None:
        """Return the line that requires a distribution, or a Python."""
        return next((line for line in self.lines if line.name == name), None)


def require_own_packages(target: Target, root: Path) -> None:
    """Require that the own packages of a target are there; SpecError names those that are not."""
    amiss = {}
    for text in target.pip.local:
        if why := _amiss(local_folder(text, root), root):
            amiss[text] = why
    if not amiss:
        return
    places = read_places(target, root)
    faults = [f"{places.of(text)}: {text}: {why}" for text, why in amiss.items()]
    raise SpecError(
        f"{target.name}: {plural(len(faults), 'own package')} cannot be read",
        evidence="\n".join(faults),
        remedy="correct the line, or remove it",
    )


def _amiss(folder: Path, root: Path) -> str:
    """Return why a folder is no package of Python, or ""."""
    if has_metadata(folder):
        return ""
    why = f"{folder} has neither {' nor '.join(METADATA[:2])}"
    if not folder.is_dir():
        why = f"there is no folder {folder}"
    return why + not_fetched(folder, root.resolve())


def metadata_elsewhere(folder: Path) -> dict[str, str]:
    """Return variables by which setuptools writes an .egg-info here, not into an own package.

    It reads them from 66 on: https://setuptools.pypa.io/en/latest/userguide/ext_modules.html
    """
    settings = folder / "setuptools.cfg"
    settings.write_text(f"[egg_info]\negg_base = {folder}\n", encoding="utf-8")
    return {"DIST_EXTRA_CONFIG": str(settings)}


def own_packages(entries: Sequence[str], root: Path) -> list[OwnPackage]:
    """Read the own packages of a project."""
    return [_own_package(entry, root) for entry in entries]


def _own_package(entry: str, root: Path) -> OwnPackage:
    path, _, bracket = entry.removeprefix("-e ").partition("[")
    folder = root / path.strip()
    if path.startswith("file:"):
        folder = Path(url2pathname(urlsplit(path).path))
    file = folder.resolve() / "pyproject.toml"
    extras = names_of_extras(bracket.partition("]")[0])
    with contextlib.suppress(OSError, *FAULTS):
        manifest = read_pyproject(file, root)
        lines = tuple(_lines(manifest, extras))
        is_static = all(map(manifest.says, ("dependencies", "optional-dependencies")))
        return OwnPackage(entry, manifest.name, lines, is_static)
    return OwnPackage(entry)


def _lines(manifest: Pyproject, extras: Sequence[str]) -> Iterator[Line]:
    place = f"{manifest.place}/{manifest.path.name}".removeprefix("./")
    if python := manifest.project.get("requires-python"):
        number = manifest.line("project", "requires-python")
        yield Line("requirements", f"Python{python}", f"{place}, line {number}", "file")
    with contextlib.suppress(*FAULTS):  # dynamic ones
        for line in manifest.requirements(extras):
            where = f"{place}, line {line.number}"
            yield Line("requirements", line.text, where, "file")
