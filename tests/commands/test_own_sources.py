"""A project whose requirements are source only, by URL, in git, in files and in folders."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import yaml

from provision.artifacts.pip_config import PipConfig
from provision.artifacts.sources import pack_again
from provision.artifacts.tools import LOCKS
from provision.commands.build import build
from provision.commands.build_request import BuildRequest
from provision.commands.bundle import bundle
from provision.commands.expectation import expectation
from provision.commands.export import Export, Format, export
from provision.commands.freshness import staleness
from provision.commands.lock import lock
from provision.commands.own_sources import with_built_wheels
from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.process import environment_python, run
from provision.core.project import CURRENT, Project
from provision.environment.contents import read_contents
from provision.environment.verify import verify
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import PIP_LAYER, read_lock
from provision.lockfile.sbom import sbom
from provision.resolver import pip_tools
from provision.resolver.resolver import Resolver
from provision.spec.reader import load_target
from tests.commands.answering import Answering, served
from tests.commands.test_export import INSTALL, installed, words_of
from tests.lab import Silent, new_cache
from tests.small import PYTHON, make_project, make_wheel
from tests.small import Index as SmallIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provision.lockfile.pip import Artifact, Lock
    from provision.spec.model import Target

pytestmark = pytest.mark.machine

# A build backend of a few lines: what it writes depends on all that must not leak into a build.
BACKEND = """
import base64, hashlib, importlib, json, os, time, tomllib, zipfile
def digest(text):
    found = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()
def read():
    tables = tomllib.load(open("pyproject.toml", "rb"))
    return tables["project"], tables.get("tool", {}).get("tiny", {})
def get_requires_for_build_wheel(config_settings=None):
    return ["helper"] * read()[1].get("helper", False)
def build_wheel(folder, config_settings=None, metadata_directory=None):
    project, extra = read()
    helper = importlib.import_module("helper").version if extra.get("helper") else None
    name, version = project["name"], project.get("version", "0.dev7")
    info = f"{name}-{version}.dist-info"
    leaked = [n for n in os.environ if n.startswith(("PIP_", "UV_CONFIG", "SECRET"))]
    leaked += os.listdir(os.environ["HOME"])
    asked = list(project.get("dependencies", []))
    if extra.get("needs"):  # as setuptools does for `dynamic`
        asked += open(extra["needs"]).read().split()
    needs = "".join(f"Requires-Dist: {d}\\n" for d in asked)
    tag = extra.get("tag", "py3-none-any")
    head = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    files = {f"{name}.py": f"leaked = {leaked}\\nhelper = {helper!r}\\n",
             f"{info}/WHEEL": f"Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: {tag}\\n",
             f"{info}/METADATA": head + needs}
    if extra.get("random"):
        files[f"{name}.py"] += f"made = {os.urandom(8)!r}\\n"
    any_order = sorted(files.items(), key=lambda _: os.urandom(4))
    record = "".join(f"{n},sha256={digest(t)},{len(t.encode())}\\n" for n, t in any_order)
    files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\\n"
    wheel = f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for path, text in [*any_order, (f"{info}/RECORD", files[f"{info}/RECORD"])]:
            archive.writestr(zipfile.ZipInfo(path, time.localtime()[:6]), text)
    return wheel
def get_requires_for_build_editable(config_settings=None):
    return ["helper"]
def build_editable(folder, config_settings=None, metadata_directory=None):
    return build_wheel(folder)
"""


def manifest(name: str, *needs: str, more: str = "") -> str:
    return (
        '[build-system]\nrequires = ["tiny-backend"]\nbuild-backend = "tiny_backend"\n'
        f'[project]\nname = "{name}"\nversion = "1.0"\ndependencies = {json.dumps(needs)}\n{more}'
    )


@dataclass
class Site:
    """An index with sdists and wheels, a project, and a git repository."""

    project: Project
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    listener: Silent = field(default_factory=Silent)
    asked: set[str] = field(default_factory=set)  # for which names

    def sdist(self, name: str, *needs: str, more: str = "") -> bytes:
        text = manifest(name, *needs, more=more).encode()
        info = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for path, content in (("pyproject.toml", text), ("PKG-INFO", info)):
                entry = tarfile.TarInfo(f"{name}-1.0/{path}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        made = stream.getvalue()
        self.files[f"{name}-1.0.tar.gz"] = made
        return made

    def listed(self, name: str) -> list[dict[str, object]]:
        """Return the entries of the page of a name."""
        files: list[dict[str, object]] = []
        for file, data in self.files.items():
            package, _, _ = file.partition("-")
            if package.replace("_", "-") == name:
                digest = hashlib.sha256(data).hexdigest()
                entry = {
                    "filename": file,
                    "url": f"{self.url}/files/{file}",
                    "size": len(data),
                    "hashes": {"sha256": digest},
                    "upload-time": "2020-01-01T00:00:00Z",
                }
                files.append(entry)
        return files

    def write(self, name: str, text: str) -> None:
        """Write a file into the root of the project."""
        path = self.project.root / name
        path.write_text(text)

    @property
    def target(self) -> Target:
        """The target as its spec is now."""
        return load_target(self.project.specs, "tiny")

    @property
    def locked(self) -> Lock:
        """The lock as it was last written."""
        return read_lock(self.project.lock("tiny"))

    def stale(self, locked: Lock) -> str | None:
        """Return why a lock is not that of the project as it is now."""
        return staleness(self.target, self.project.catalog, locked)

    def own(self, text: str) -> Path:
        """Write the manifest of a package of the project's own; return its folder."""
        folder = self.project.root / "own"
        folder.mkdir(exist_ok=True)
        (folder / "pyproject.toml").write_text(text)
        return folder

    def spec(self, table: str) -> None:
        path = self.project.specs / "tiny.toml"
        head, _, _ = path.read_text().partition("[pip]")
        path.write_text(f"{head}[pip]\ncutoff = 2026-11-01\n{table}\n")

    def lock(self, root: Path | None = None) -> Lock:
        project = Project(root) if root else self.project
        config = PipConfig(index_url=f"{self.url}/simple/")
        target = load_target(project.specs, "tiny")
        resolver = Resolver(project.catalog, config, run, self.listener)
        (result,) = lock([target], project, resolver)
        if result.error:
            raise result.error
        return read_lock(project.lock("tiny"))

    def artifacts(self) -> dict[str, Artifact]:
        artifacts = self.lock().artifacts
        return {artifact.name: artifact for artifact in artifacts}

    @property
    def supply(self) -> ArtifactSources:
        addresses = {"default": f"{self.url}/simple/"}
        return ArtifactSources((), addresses, offline=False)

    def export(self, kind: Format, file: Path | None) -> Export:
        return export(
            self.project,
            self.target,
            self.locked,
            supply=self.supply,
            kind=kind,
            file=file,
            progress=self.listener,
        )

    def build(self) -> Path:
        request = BuildRequest(
            self.project,
            self.target,
            self.locked,
            self.supply,
            smoke=False,
            absent="",
            stack=dict,
        )
        build(request, run, self.listener)
        return self.project.environments("tiny") / CURRENT


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("UV_CACHE_DIR", str(new_cache(tmp_path / "cache")))
    monkeypatch.setenv("SECRET", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    index = SmallIndex(tmp_path, "http://127.0.0.1:9")
    made = Site(make_project(tmp_path / "project", index))
    wheels = tmp_path / "wheels"
    for path in (
        make_wheel(wheels, "tiny_backend", "1.0", {"tiny_backend.py": BACKEND}),
        make_wheel(wheels, "helper", "1.0", {"helper.py": "version = '1.0'\n"}),
        make_wheel(wheels, "helper", "0.9", {"helper.py": "version = '0.9'\n"}),
        make_wheel(wheels, "plain", "1.0", {"plain.py": ""}),
        make_wheel(wheels, "plain", "2.0", {"plain.py": ""}),
    ):
        made.files[path.name] = path.read_bytes()
    made.sdist("alone", "deeper", "plain", more="[tool.tiny]\nhelper = true\n")
    made.sdist("deeper")
    with served(Handler, made) as made.url:
        yield made


class Handler(Answering):
    shop: Site

    def do_GET(self) -> None:  # noqa: N802 - the name is the library's
        path = urlsplit(self.path).path.strip("/")
        *_, kind, leaf = path.split("/")
        if kind == "simple":
            self.shop.asked.add(leaf)
            self.page(leaf, self.shop.listed(leaf))
        elif leaf in self.shop.files:
            headers = {"Cache-Control": "no-store"}
            self.answer(200, self.shop.files[leaf], headers=headers)
        else:
            self.answer(404)


def repository(folder: Path) -> str:
    """Make a git repository with a tag, which its branch has left; return the tag's commit."""

    def git(*words: str) -> str:
        argv = ["git", "-C", str(folder)]
        for setting in ("user.name=x", "user.email=x@example.org", "tag.gpgsign=false"):
            argv += ["-c", setting]
        argv += words
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    package = folder / "python" / "pyproject.toml"
    package.parent.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch", "main")
    package.write_text(manifest("gitty"))
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    git("tag", "--annotate", "v1", "--message", "of its own")
    commit = git("rev-parse", "HEAD")
    package.write_text(manifest("gitty", "plain"))
    git("commit", "--quiet", "--all", "--message", "second")
    git("branch", "zzz/v1")
    git("update-ref", "refs/zzz/v1", "HEAD")
    return commit


def test_every_source_only_package_is_named_at_once(site: Site) -> None:
    site.sdist("another")
    site.spec(
        'requirements = ["alone", "plain"]\nbuild = ["alone"]\nfiles = ["more.txt"]'
    )
    site.write("more.txt", "another\n")
    with pytest.raises(SpecError) as error:
        site.lock()
    assert "another, deeper" in error.value.what
    line = '`build = ["alone", "another", "deeper"]` into [pip] of envs/'
    assert f"{line}tiny.toml" in error.value.remedy
    assert not site.project.lock("tiny").exists()
    assert not site.project.wheelhouse.exists()
    base = site.project.specs / "base" / "project.toml"  # of several targets
    base.parent.mkdir()
    base.write_text('[pip]\nbuild = ["alone"]\n')
    spec = site.project.specs / "tiny.toml"
    text = spec.read_text().replace('build = ["alone"]', "")
    spec.write_text(f'extends = "base/project"\n{text}')
    with pytest.raises(SpecError) as error:
        site.lock()
    remedy = error.value.remedy
    assert '`build = ["another", "deeper"]` into [pip] of envs/tiny.toml' in remedy
    assert "no wheel on any platform: into envs/base/project.toml" in remedy


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is of Linux")
def test_what_is_compiled_for_a_newer_glibc_is_no_source_only_package(
    site: Site, tmp_path: Path
) -> None:
    made = make_wheel(tmp_path / "made", "newer", "1.0", {"newer.py": ""})
    name = f"newer-1.0-py3-none-manylinux_2_34_{platform.machine()}.whl"
    site.files[name] = made.read_bytes()
    site.sdist("newer")
    site.spec('requirements = ["newer", "deeper"]')
    with pytest.raises(SpecError) as error:
        site.lock()
    assert "there are wheels for glibc 2.34 and newer" in error.value.cause
    assert 'write `build = ["deeper"]` into' in error.value.remedy
    assert 'write `glibc = "2.34"` above the tables of' in error.value.remedy
    path = site.project.specs / "tiny.toml"
    path.write_text(f'glibc = "2.34"\n{path.read_text()}build = ["deeper"]\n')
    indexes = {artifact.index for artifact in site.lock().artifacts}
    assert indexes == {"default", "wheelhouse"}


def put_strangers(site: Site, folder: Path) -> None:
    """Let the index have packages of the name of one that is built: none may be taken."""
    for version in ("1.0", "9.0"):
        evil = {"gitty.py": "evil = True\n"}
        path = make_wheel(folder, "gitty", version, evil)
        site.files[path.name] = path.read_bytes()


def lock_all_kinds(site: Site, folder: Path) -> None:
    """Lock what comes from an sdist, git, a URL and the project, and check where from."""
    commit = repository(folder / "git")
    address = f"git+file://{folder}/git"
    put_strangers(site, folder / "evil")
    digest = hashlib.sha256(site.sdist("linked")).hexdigest()
    site.own(manifest("own", "plain<3"))
    needs = f"{address}@v1#egg=gitty&subdirectory=python\n-e own\n"
    site.write("needs.txt", f"-c limits.txt\n{needs}")
    site.write("limits.txt", "plain<2\n")
    site.spec(
        f'requirements = ["alone", "linked @ {site.url}/files/linked-1.0.tar.gz"]\n'
        'build = ["alone", "deeper"]\nfiles = ["needs.txt"]'
    )
    found = site.artifacts()
    assert set(found) == {"alone", "deeper", "gitty", "linked", "plain"}
    plain, deeper, gitty = found["plain"], found["deeper"], found["gitty"]
    assert plain.version == "1.0"
    assert plain.via == ("alone", "own")
    assert deeper.index == "wheelhouse"
    assert deeper.via == ("alone",)
    assert gitty.index == "wheelhouse"
    assert gitty.source == f"{address}@{commit}#subdirectory=python"
    linked = f"/files/linked-1.0.tar.gz sha256:{digest}"
    assert found["linked"].source.endswith(linked)
    assert digest in "\n".join(site.listener.notes)
    helper, backend = found["alone"].build
    assert helper.startswith("helper==")
    assert backend.startswith("tiny-backend==")


def test_from_lock_to_environment_and_again_from_nothing(
    site: Site, tmp_path: Path
) -> None:
    lock_all_kinds(site, tmp_path)
    text = (site.project.lock("tiny") / PIP_LAYER).read_bytes()
    first = built_wheels(site.project)
    prefix = site.build()
    python = environment_python(prefix)
    code = "import alone, deeper, gitty, linked, own; print(alone.leaked, alone.helper)"
    code += "; assert not hasattr(gitty, 'evil')"
    done = run([python, "-I", "-c", code]).require("it ran")
    assert done.stdout == "[] 1.0\n"
    locked = site.locked

    def codes() -> list[str]:
        contents = read_contents(prefix.resolve(), "tiny")
        found = verify(contents, locked, (), deep=True)
        return [finding.code for finding in found.findings]

    assert codes() == []

    # The files of the own package are the user's; those of a built wheel are not.
    site_packages = prefix / "lib" / f"python{PYTHON}" / "site-packages"
    (site_packages / "own.py").write_text("changed = True\n")
    assert codes() == []
    module = site_packages / "alone.py"
    module.unlink()
    module.write_text("changed = True\n")
    assert codes() == ["changed-file"]

    # A clone has no wheelhouse, and another folder: the same lock, and the same wheels.
    clone = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".*", "wheelhouse")
    shutil.copytree(site.project.root, clone, ignore=ignored)
    locks = clone / "lockfiles"
    shutil.rmtree(locks)
    site.lock(clone)
    assert (locks / "tiny" / PIP_LAYER).read_bytes() == text
    assert built_wheels(Project(clone)) == first


def built_wheels(project: Project) -> dict[str, bytes]:
    """Return the wheels that were built for a project."""
    wheels = project.wheelhouse.rglob("*.whl")
    return {wheel.name: wheel.read_bytes() for wheel in wheels}


def test_what_a_target_does_without_is_in_no_lock_and_named(site: Site) -> None:
    site.write("needs.txt", "alone\nhelper<1\n")
    site.spec('files = ["needs.txt"]\nexclude = ["helper", "deeper", "nobody"]')
    site.sdist("alone", "deeper", "plain")
    path = site.project.specs / "tiny.toml"
    text = path.read_text()
    path.write_text(f'{text}build = ["alone"]\n')
    assert site.artifacts().keys() == {"alone", "plain"}
    said = "tiny: [pip] exclude leaves out"
    assert site.listener.notes == [
        f"{said} helper: needs.txt, line 2 requires it",
        f"{said} deeper: packages require it",
        f"{said} nobody: nothing requires it any more",
    ]
    target = site.target
    versions = site.locked.versions
    expected = expectation(target, versions, site.project.catalog)
    assert expected["requirements"] == ["alone"]
    with pytest.raises(UsageError, match="pip-tools cannot resolve") as caught:
        pip_tools.require_support(target)
    assert "excluded packages" in caught.value.cause


def test_attack_a_member_of_a_workspace_is_never_looked_up_by_its_name(
    site: Site,
) -> None:
    """A stranger uploads a package of the name of one that the project has itself."""
    member = site.project.root / "libs" / "plain"
    member.mkdir(parents=True)
    (member / "pyproject.toml").write_text(manifest("plain", "deeper"))
    sources = "[tool.uv.sources]\nplain = { workspace = true }\n"
    workspace = f'{sources}[tool.uv.workspace]\nmembers = ["libs/*"]\n'
    app = manifest("app", "plain>=0.1", more=workspace)
    site.write("pyproject.toml", app)
    for words in ('local = ["-e ."]', 'files = ["pyproject.toml"]'):
        site.spec(f'{words}\nbuild = ["deeper"]')
        site.asked.clear()
        assert site.artifacts().keys() == {"deeper"}
        assert "plain" not in site.asked
        assert "deeper" in site.asked
    without_workspace = manifest("app", "plain", more=sources)
    site.write("pyproject.toml", without_workspace)
    site.asked.clear()
    with pytest.raises(SpecError, match="1 error") as caught:
        site.lock()
    assert "no member of a workspace has its name" in caught.value.evidence
    assert not site.asked


def test_an_archive_in_the_project_is_locked_by_its_hash(site: Site) -> None:
    vendor = site.project.root / "vendor"
    vendor.mkdir()
    for name in ("deeper-1.0.tar.gz", "plain-1.0-py3-none-any.whl"):
        content = site.files.pop(name)
        (vendor / name).write_bytes(content)
    site.write("needs.txt", "./vendor/deeper-1.0.tar.gz\n")
    source = "plain = { path = 'vendor/plain-1.0-py3-none-any.whl' }"
    app = manifest("app", "plain", more=f"[tool.uv.sources]\n{source}\n")
    site.write("pyproject.toml", app)
    site.spec('files = ["needs.txt", "pyproject.toml"]')
    found = site.artifacts()
    archive = vendor / "deeper-1.0.tar.gz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    source = f"file:vendor/deeper-1.0.tar.gz sha256:{digest}"
    assert found["deeper"].source == source
    assert found["plain"].version == "1.0"  # and not 2.0, which the index has
    assert "plain" not in site.asked
    assert "deeper" not in site.asked
    shutil.rmtree(site.project.wheelhouse)
    site.build()
    shutil.rmtree(site.project.wheelhouse)
    shutil.rmtree(site.project.root / ".cache")
    locked = site.locked
    assert site.stale(locked) is None
    archive.write_bytes(b"another")
    said = site.stale(locked)
    assert said == "vendor/deeper-1.0.tar.gz changed since it was locked"
    with pytest.raises(ToolError, match="is not the file that is locked for deeper"):
        with_built_wheels(site.project, locked, site.supply, run, site.listener)


def test_what_an_own_package_takes_from_a_url_is_locked(
    site: Site, tmp_path: Path
) -> None:
    repository(tmp_path / "git")
    asked = f"gitty @ git+file://{tmp_path}/git@v1#subdirectory=python"
    site.own(manifest("own", asked, "plain"))
    site.spec('local = ["-e own"]')
    found = site.artifacts()
    assert found.keys() == {"gitty", "plain"}
    assert found["gitty"].source.startswith(f"git+file://{tmp_path}/git@")
    assert "gitty" not in site.asked


@pytest.mark.slow
def test_what_only_a_build_tells_to_be_from_a_url_is_refused_with_the_line_to_write(
    site: Site, tmp_path: Path
) -> None:
    repository(tmp_path / "git")
    asked = f"gitty @ git+file://{tmp_path}/git@v1#subdirectory=python"
    own = site.project.root / "own"
    own.mkdir()
    text = manifest("own", asked, "plain", more='dynamic = ["dependencies"]\n')
    (own / "pyproject.toml").write_text(text)
    site.spec('local = ["-e own"]')
    refused = "an own package takes gitty from a URL"
    with pytest.raises(SpecError, match=refused) as told:
        site.lock()
    _, line, *_ = told.value.remedy.split("`")
    site.spec(f'local = ["-e own"]\n{line}')
    assert site.artifacts().keys() == {"gitty", "plain"}


def test_the_file_that_makes_a_lock_stale_is_named(site: Site) -> None:
    app = manifest("app", "plain<2")
    with_a_tool = manifest("app", "plain<2", more="[tool.x]\ny = 1\n")
    with_another_limit = manifest("app", "plain<3")
    site.write("pyproject.toml", app)
    site.write("needs.txt", "-r more.txt\nhelper\n")
    site.write("more.txt", "plain\n")
    site.spec('files = ["needs.txt", "pyproject.toml"]')
    locked = site.lock()
    for name, text, stale in (
        ("needs.txt", "# why\n-r more.txt\nhelper  # so\n", False),
        ("more.txt", "plain>=1\n", True),
        ("more.txt", "plain\n", False),
        ("pyproject.toml", with_a_tool, False),
        ("pyproject.toml", with_another_limit, True),
        ("pyproject.toml", app, False),
        ("needs.txt", "-r more.txt\n", True),
    ):
        site.write(name, text)
        said = f"{name} changed since it was locked" if stale else None
        assert site.stale(locked) == said
    site.write("needs.txt", "-r more.txt\nhelper\n")
    site.spec('files = ["needs.txt", "pyproject.toml"]\nbuild = ["alone"]')
    said = site.stale(locked)
    assert said == "envs/tiny.toml changed since it was locked"


@pytest.mark.slow
def test_an_edit_of_what_a_build_reads_makes_the_lock_stale_and_is_locked(
    site: Site,
) -> None:
    """Setuptools reads files of any names, and uv keeps what an earlier build told."""
    needs = site.project.root / "own" / "reqs" / "any-name.lst"
    needs.parent.mkdir(parents=True)
    needs.write_text("plain<2\n")
    more = (
        'dynamic = ["dependencies"]\n[tool.tiny]\nneeds = "reqs/any-name.lst"\n'
        "[tool.setuptools.dynamic]\n"
        'dependencies = { file = ["reqs/any-name.lst"] }\n'
    )
    text = manifest("own", more=more).replace("dependencies = []\n", "")
    site.own(text)
    site.spec('local = ["-e own"]')
    locked = site.lock()
    assert locked.versions == {"plain": "1.0"}
    needs.write_text("# as it was\nplain<2\n")
    assert site.stale(locked) is None
    needs.write_text("plain\nhelper\n")
    said = site.stale(locked)
    assert said == "own/reqs/any-name.lst changed since it was locked"
    assert site.lock().versions == {"plain": "2.0", "helper": "1.0"}


def archived(kind: str, files: dict[str, str]) -> bytes:
    """Return an archive of some files, a zip or a tar."""
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
        return stream.getvalue()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


@pytest.mark.parametrize(
    "kind", ["tar.gz", pytest.param("zip", marks=pytest.mark.slow)]
)
def test_a_package_can_be_in_a_folder_of_an_archive(site: Site, kind: str) -> None:
    """As pip and uv take `#subdirectory=`: below the one folder that all of it is in."""
    files = {
        "repo-main/pyproject.toml": manifest("nested").replace("1.0", "6.6"),
        "repo-main/python/pyproject.toml": manifest("nested"),
    }
    name = f"repo.{kind}"
    site.files[name] = archived(kind, files)
    url = f"{site.url}/files/{name}"
    site.spec(f'requirements = ["nested @ {url}#subdirectory=python"]')
    found = site.artifacts()["nested"]
    assert found.version == "1.0"
    assert f"{name}#subdirectory=python sha256:" in found.source
    source = f"nested = {{ url = '{url}', subdirectory = 'python' }}"
    app = manifest("app", "nested", more=f"[tool.uv.sources]\n{source}\n")
    site.write("pyproject.toml", app)
    site.spec('files = ["pyproject.toml"]')
    assert site.artifacts()["nested"] == found
    shutil.rmtree(site.project.wheelhouse)
    site.build()
    for below in ("absent", "../.."):
        site.spec(f'requirements = ["nested @ {url}#subdirectory={below}"]')
        with pytest.raises(SpecError, match=f"has no folder {below}"):
            site.lock()


def test_own_requirements_make_a_lock_stale_and_a_linter_does_not(site: Site) -> None:
    site.own(manifest("own", "plain"))
    site.spec('local = ["own"]')
    locked = site.lock()
    assert locked.local == {"own"}
    assert site.stale(locked) is None
    own = site.project.root / "own"
    own.rename(own.with_name("elsewhere"))
    assert site.stale(locked) is None, "an image or a bundle does without it"
    site.own(manifest("own"))
    said = site.stale(locked)
    assert said == "own/pyproject.toml changed since it was locked"
    assert site.lock().digest != locked.digest


def test_an_own_package_whose_build_tells_its_version_is_locked_and_installed(
    site: Site,
) -> None:
    """As with setuptools-scm; the entry in ``local`` is the consent to run its code."""
    text = manifest("own", "plain").replace('version = "1.0"', 'dynamic = ["version"]')
    site.write("pyproject.toml", text)
    site.spec('local = ["-e ."]')
    locked = site.lock()
    assert locked.local == {"own"}
    assert locked.versions.keys() == {"plain"}
    prefix = site.build()
    packages = read_contents(prefix, "tiny").packages
    versions = {package.name: package.version for package in packages}
    assert versions["own"] == "0.dev7"


def test_a_build_that_never_gives_the_same_wheel_is_refused(site: Site) -> None:
    site.sdist("deeper", more="[tool.tiny]\nrandom = true\n")
    site.spec('requirements = ["deeper"]\nbuild = ["deeper"]')
    site.lock()
    project = site.project
    kept = shutil.copytree(project.wheelhouse, project.root / "kept")
    site.build()
    shutil.rmtree(project.wheelhouse)
    environments = project.environments("tiny")
    shutil.rmtree(environments)
    with pytest.raises(ToolError, match="gives another wheel than the locked one"):
        site.build()
    assert not (environments / CURRENT).exists()
    (folder,) = kept.iterdir()
    supply = replace(site.supply, wheelhouses=(folder,))
    used = with_built_wheels(project, site.locked, supply, run, site.listener)
    assert used == supply


def test_what_was_edited_is_not_believed(site: Site) -> None:
    site.spec('requirements = ["deeper"]\nbuild = ["deeper"]')
    site.lock()
    (wheel,) = site.project.wheelhouse.rglob("*.whl")
    good = wheel.read_bytes()
    wheel.write_bytes(good[:-1] + b"x")
    site.build()
    assert wheel.read_bytes() == good
    # A source that changed under its name is refused.
    for path in (".cache", ".envs", "wheelhouse"):
        shutil.rmtree(site.project.root / path)
    site.sdist("deeper", "plain")
    with pytest.raises(ToolError, match="the source of deeper is not") as error:
        site.build()
    assert "another file of this name" in error.value.evidence


def test_a_source_that_cannot_be_had_is_explained(site: Site, tmp_path: Path) -> None:
    repository(tmp_path / "git")
    git, files = f"git+file://{tmp_path}/git", f"{site.url}/files"
    absent = f"absent-1.0.tar.gz#sha256={'a' * 64}"
    for requirement, said in (
        (f"other @ {git}@v1#subdirectory=python", "is gitty, not other"),
        (f"gitty @ {git}@v2#subdirectory=python", "has no branch or tag v2"),
        (f"gitty @ {git}-absent", "git failed"),
        (f"gitty @ {git}", "could not build gitty"),
        (f"gitty @ {files}/plain-1.0-py3-none-any.whl", "is plain, not gitty"),
        (f"gitty @ {files}/{absent}", "is not available"),
    ):
        site.spec(f'requirements = ["{requirement}"]')
        with pytest.raises((SpecError, ToolError)) as error:
            site.lock()
        assert said in error.value.what
    assert not site.project.lock("tiny").exists()


@pytest.mark.slow
def test_all_sources_that_cannot_be_had_are_named_with_the_line_to_do_without(
    site: Site, tmp_path: Path
) -> None:
    absent = f"git+file://{tmp_path}/absent"
    elsewhere = f"three @ {absent} ; sys_platform == 'nowhere'"
    lines = ["plain", f"one @ {absent}", f"{site.url}/files/two-1.0.tar.gz", elsewhere]
    site.write("needs.txt", "\n".join(lines))
    site.spec('files = ["needs.txt"]\nexclude = ["helper"]')
    with pytest.raises(ToolError, match="tiny: git failed") as caught:
        site.lock()
    evidence = caught.value.evidence
    assert f"needs.txt, line 2 requires one @ {absent}" in evidence
    assert "needs.txt, line 3 requires two @ http" in evidence
    assert "three" not in evidence
    told = 'exclude = ["helper", "one", "two"]'
    assert f"to do without: write `{told}`" in caught.value.remedy
    site.spec(f'files = ["needs.txt"]\n{told}')
    assert site.artifacts().keys() == {"plain"}


def test_a_bundle_and_a_bill_of_materials_have_what_was_built(
    site: Site, tmp_path: Path
) -> None:
    site.write("needs.txt", "deeper\n")
    site.spec('files = ["needs.txt"]\nbuild = ["deeper"]')
    locked = site.lock()
    target = site.target
    for name in ("noxfile.py", "pyproject.toml", "README.md", "LICENSE"):
        site.write(name, "")
    (site.project.root / "provision").mkdir()
    tools = site.project.lock("tools")
    tools.mkdir()
    for name in LOCKS:
        (tools / name).write_text("")
    folder = tmp_path / "bundle"
    bundle(
        site.project,
        target,
        locked,
        supply=site.supply,
        folder=folder,
        progress=site.listener,
    )
    (wheel,) = (folder / "artifacts").iterdir()
    assert wheel.name == "deeper-1.0-py3-none-any.whl"
    alone = load_target(folder / "toolkit" / "envs", "tiny")  # with what the file says
    assert alone.pip.files == ()
    assert alone.digest() == target.digest()
    bill = json.loads(sbom(target, locked))
    (component,) = bill["components"]
    (deeper,) = locked.artifacts
    source = {"name": "provision:source", "value": deeper.source}
    assert source in component["properties"]


@pytest.mark.slow
def test_an_export_installs_what_was_built_from_any_place(
    site: Site, tmp_path: Path
) -> None:
    repository(tmp_path / "git")
    root = site.project.root
    index = f"{site.url}/simple/"
    put_strangers(site, tmp_path / "evil")
    site.own(manifest("own"))
    site.spec(
        f"""
requirements = [
    "gitty @ git+file://{tmp_path}/git@v1#subdirectory=python", "deeper",
    "plain @ {site.url}/files/plain-1.0-py3-none-any.whl",
]
build = ["deeper"]
local = ["-e own"]
"""
    )
    site.lock()
    all_three = {"deeper": "1.0", "gitty": "1.0", "plain": "1.0"}
    inside = root / "locks" / "pylock.toml"
    outside = tmp_path / "else" / "pylock.toml"
    for file in (inside, outside):
        file.parent.mkdir()
        made = site.export("pylock", file)
        assert f"{site.url}/files/plain-1.0-py3-none-any.whl" in made.text
        left_out = "the own packages: `pip install --no-deps -e own`"
        assert made.left_out[-1].startswith(left_out)
        for name, words in INSTALL.items():
            place = tmp_path / f"{name} of {file.parent.name}"
            assert installed(index, place, *words, str(file)) == all_three
    for file in (root / "all.txt", outside.with_name("all.txt")):
        site.export("requirements", file)
        first, second, *_ = file.read_text(encoding="utf-8").splitlines()
        for line in (first, second):
            tool, *words = words_of(line, file)
            place = tmp_path / f"{tool} of {file.parent.name}, requirements"
            assert installed(index, place, *words, cwd=file.parent) == all_three
    assert "file:" not in inside.read_text(encoding="utf-8")
    clone = shutil.copytree(root, tmp_path / "clone")
    shutil.rmtree(site.project.wheelhouse)
    file = str(clone / "locks" / "pylock.toml")
    assert installed(index, tmp_path / "of clone", *INSTALL["pip"], file) == all_three


def test_an_export_builds_what_no_wheelhouse_has_and_says_what_it_wants(
    site: Site,
) -> None:
    site.spec('requirements = ["deeper"]\nbuild = ["deeper"]')
    site.lock()
    file = site.project.root / "pylock.toml"
    first = site.export("pylock", file)
    (wheel,) = site.project.wheelhouse.rglob("*.whl")
    shutil.rmtree(site.project.wheelhouse)
    assert site.export("pylock", file) == first
    assert wheel.is_file()
    (note,) = first.notes
    assert "deeper" in note
    assert "wheelhouse/" in note
    printed = site.export("pylock", None)
    assert wheel.as_uri() in printed.text
    assert "`-o`" in " ".join(printed.notes)
    conda = site.export("environment", file.with_name("environment.yml"))
    *_, last = yaml.safe_load(conda.text)["dependencies"]
    inside = wheel.relative_to(site.project.root)
    assert last["pip"] == [inside.as_posix()]


def test_a_packed_wheel_depends_on_its_files_only(tmp_path: Path) -> None:
    files = {"a.py": "1", "b.py": "2"}
    in_another_order = {"b.py": "2", "a.py": "1"}
    one = make_wheel(tmp_path / "a", "plain", "1.0", files)
    other = make_wheel(tmp_path / "b", "plain", "1.0", in_another_order)
    assert one.read_bytes() != other.read_bytes()
    one_again, other_again = tmp_path / "one.whl", tmp_path / "other.whl"
    pack_again(one, one_again)
    pack_again(other, other_again)
    assert one_again.read_bytes() == other_again.read_bytes()
