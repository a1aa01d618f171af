"""``[tool.uv.sources]``: where a package of a pyproject.toml comes from, if not from its index.

A package that has a source is never looked up by its name: anybody can upload one of that name.
The format: https://docs.astral.sh/uv/concepts/projects/dependencies/#dependency-sources.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

from provision.spec.globs import folders_of
from provision.spec.model import ARCHIVE, requirement_name
from provision.spec.pyproject import (
    FAULTS,
    Data,
    Line,
    Pyproject,
    read_pyproject,
    relative,
    table,
)
from provision.spec.submodules import not_fetched

ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz")

_WHEN = {"marker", "extra", "group"}
_ELSEWHERE = {"git", "url", "path", "file", "source"}
_OF_POETRY = {"version", "python", "extras", "optional"}  # which [project] says
_KINDS = {
    "git": {"git", "rev", "tag", "branch", "subdirectory"},
    "url": {"url", "subdirectory"},
    "path": {"path", "editable", "package"},
    "workspace": {"workspace", "editable"},
    "index": {"index"},
}


@dataclass(frozen=True)
class Source:
    """Where a package comes from, as one table of a file says."""

    name: str
    said: Data  # of no kind, where it is no table
    manifest: Pyproject
    table: str = "tool.uv.sources"  # that says it

    @property
    def number(self) -> int:
        """Its line."""
        return self.manifest.line(self.table, self.name)

    @property
    def kind(self) -> str:
        """Its kind; ValueError if what it says is none that can be followed."""
        for kind, keys in _KINDS.items():
            if self.said.get(kind) and set(self.said) <= keys | _WHEN:
                return kind
        raise ValueError("it is of no kind that is known")

    @property
    def url(self) -> str:
        """The direct reference of a git repository or an archive."""
        said = self.said
        url = str(said.get("url", ""))
        if git := said.get("git"):
            url = f"git+{str(git).removeprefix('git+')}"
            if revision := said.get("rev") or said.get("tag") or said.get("branch"):
                url += f"@{revision}"
        if folder := said.get("subdirectory"):
            url += f"#subdirectory={folder}"
        return url

    @property
    def path(self) -> Path:
        """The folder or the archive that it names, if it is of that kind."""
        return (self.manifest.folder / str(self.said.get("path", ""))).resolve()

    def serves(self, line: Line, markers: Mapping[str, str] | None) -> bool:
        """Whether it is for what requires a package, on a platform where that is known."""
        for kind in ("extra", "group"):
            asked = str(self.said.get(kind, ""))
            if asked and line.part != (kind, canonicalize_name(asked)):
                return False
        marker = self.said.get("marker")
        if markers is None or not marker:
            return True
        return Marker(marker).evaluate(markers)


@dataclass(frozen=True)
class Sources:
    """The sources that hold for a pyproject, and the members of its workspace by name."""

    by_name: dict[str, list[Source]]
    members: dict[str, Path]
    root: Pyproject  # of the workspace, or else itself

    def of(self, line: Line, markers: Mapping[str, str] | None) -> list[Source]:
        """Return the sources of what a line requires; ValueError for a member without one."""
        name = requirement_name(line.text)
        serving = []
        for source in self.by_name.get(name, ()):
            if source.serves(line, markers):
                serving.append(source)
        if not serving and name in self.members:
            raise ValueError(
                f"{name} is a member of the workspace and has no source; write "
                f"`{name} = {{ workspace = true }}` below [tool.uv.sources]"
            )
        return serving

    def archive(self, source: Source, project: Path) -> str:
        """Return the reference of an sdist or a wheel in the project's folder, "" of a folder."""
        if source.kind != "path" or not source.path.name.endswith(ARCHIVES):
            return ""
        path = source.path
        if not path.is_file():
            raise ValueError(f"{path} is no file{not_fetched(path, project)}")
        return f"{ARCHIVE}{relative(path, project)}"

    def folder(self, source: Source, project: Path) -> Path:
        """Return the folder of a package; ValueError if there is none."""
        folder = source.path
        if source.kind != "path":
            name = canonicalize_name(source.name)
            if name not in self.members:
                have = ", ".join(self.members) or "none"
                raise ValueError(f"no member of a workspace has its name, of {have}")
            folder = self.members[name]
        if not folder.is_dir():
            raise ValueError(f"{folder} is no folder{not_fetched(folder, project)}")
        return folder


class Workspaces:
    """The pyproject.toml files of a project and the workspaces among them, each read once."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._manifests: dict[Path, Pyproject] = {}
        self._members: dict[Path, dict[str, Path]] = {}  # by the folder of the root
        self._tables: dict[Path, dict[str, list[Source]]] = {}  # of a file's own

    def read(self, path: Path) -> Pyproject:
        """Read a pyproject.toml; OSError or ValueError if it cannot be read."""
        if path not in self._manifests:
            self._manifests[path] = read_pyproject(path, self._project)
        return self._manifests[path]

    def sources_of(self, manifest: Pyproject) -> Sources:
        """Return the sources that hold for a pyproject: its own, and else those of its workspace."""
        root = self._root_of(manifest)
        by_name = _of_poetry(manifest)
        if root is None:
            return Sources(by_name | self._table(manifest), {}, manifest)
        by_name |= self._table(root) | self._table(manifest)
        return Sources(by_name, self._members_of(root), root)

    def _table(self, manifest: Pyproject) -> dict[str, list[Source]]:
        if manifest.path not in self._tables:
            by_name: dict[str, list[Source]] = {}
            for name, tables in table(manifest.uv, "sources").items():
                sources = []
                for said in _listed(tables):
                    keys = said if isinstance(said, dict) else {}
                    sources.append(Source(name, keys, manifest))
                by_name[canonicalize_name(name)] = sources
            self._tables[manifest.path] = by_name
        return self._tables[manifest.path]

    def _root_of(self, manifest: Pyproject) -> Pyproject | None:
        """Return the nearest workspace above a pyproject, inside the project, that it is of."""
        for folder in (manifest.folder, *manifest.folder.parents):
            path = folder / "pyproject.toml"
            if not folder.is_relative_to(self._project):
                break
            if not path.is_file():
                continue
            root = manifest if path == manifest.path else self.read(path)
            if "workspace" in root.uv:
                members = self._members_of(root).values()
                return root if manifest.folder in (root.folder, *members) else None
        return None

    def _members_of(self, root: Pyproject) -> dict[str, Path]:
        """Return the packages of a workspace by their names, the root's own among them."""
        if root.folder not in self._members:
            said = table(root.uv, "workspace")
            folders = _folders(root, said, "members") - _folders(root, said, "exclude")
            members = {}
            for folder in sorted({root.folder} | folders):
                path = folder / "pyproject.toml"
                if path.is_file():
                    members[self.read(path).name] = folder
            members.pop("", None)  # of those without a name
            self._members[root.folder] = members
        return self._members[root.folder]


def _of_poetry(manifest: Pyproject) -> dict[str, list[Source]]:
    """Return what Poetry takes from elsewhere than the index: it names the same kinds of places.

    https://python-poetry.org/docs/dependency-specification/: beside [project], that is all it adds.
    """
    by_name: dict[str, list[Source]] = {}
    dependencies = table(manifest.document, "tool", "poetry", "dependencies")
    for name, tables in dependencies.items():
        for said in _listed(tables):
            if isinstance(said, dict) and _ELSEWHERE & said.keys():
                of_uv = dict(said)
                for key in _OF_POETRY:
                    of_uv.pop(key, None)
                if "source" in of_uv:
                    of_uv["index"] = of_uv.pop("source")
                source = Source(name, of_uv, manifest, "tool.poetry.dependencies")
                by_name.setdefault(canonicalize_name(name), []).append(source)
    return by_name


def _listed(tables: object) -> list[Any]:
    """Return the tables of one package: a file has one, or a list of them."""
    return tables if isinstance(tables, list) else [tables]


def _folders(root: Pyproject, said: Data, key: str) -> set[Path]:
    """Return the folders that a key of [tool.uv.workspace] names."""
    folders = set()
    for pattern in said.get(key, ()):
        try:
            folders |= folders_of(pattern, root.folder)
        except FAULTS as error:
            number = root.line("tool.uv.workspace", key, str(pattern))
            place = f"{root.path}, line {number}: [tool.uv.workspace] {key}"
            raise ValueError(f"{place}: {error}") from error
    return folders


def is_virtual(manifest: Pyproject, source: Source) -> bool:
    """Whether uv installs what a package requires, and not the package itself.

    Asked for by a source, a package without [build-system] is built, by setuptools.
    """
    return source.said.get("package", manifest.uv.get("package")) is False
