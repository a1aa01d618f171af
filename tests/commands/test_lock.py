from __future__ import annotations

import datetime as dt
import functools
import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.pip_config import PipConfig
from provision.catalog.digest import catalog_digest
from provision.catalog.snapshot import Wheel
from provision.commands import edit_spec, freshness, lock
from provision.commands.edit_journal import rewrite
from provision.commands.edit_spec import edit_and_lock
from provision.commands.lock import diff_artifacts
from provision.core.errors import SpecError, UsageError
from provision.core.process import run
from provision.core.project import Project
from provision.lockfile.pip import (
    PIP_LAYER,
    Artifact,
    parse_lock,
    read_lock,
    render_requirements,
    sealed,
)
from provision.resolver import local_index, resolver
from provision.resolver.resolver import Resolver
from provision.spec.model import Conda, Target
from tests.lab import Silent
from tests.small import target_of, write_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def wheel(filename: str, *needs: str, **more: object) -> Wheel:
    digest = hashlib.sha256(filename.encode()).hexdigest()
    known = {"sha256": digest, "size": len(filename), "requires_dist": needs}
    return Wheel(
        filename=filename, url=f"https://example.org/{filename}", **(known | more)
    )


DEFAULT = (
    wheel("torch-99.0-py3-none-any.whl"),
    wheel("filelock-3.0-py3-none-any.whl"),
    wheel("numpy-1.26-cp311-cp311-manylinux2014_x86_64.whl"),
    wheel("numpy-2.0-cp311-cp311-manylinux2014_x86_64.whl"),
    wheel("numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
    wheel("numpy-2.0-cp311-cp311-win_amd64.whl"),
    wheel("helper-1.0-py3-none-any.whl", "colorama; sys_platform == 'win32'", "numpy"),
    wheel("colorama-0.4-py3-none-any.whl"),
    wheel("torchvision-0.15.1-py3-none-any.whl", "torch"),
    wheel("picky-1.0-py3-none-any.whl", "numpy<2"),
)
VENDOR = (
    wheel("torch-2.0+xpu-cp311-cp311-linux_x86_64.whl", "filelock"),
    wheel("torch-2.0+xpu-cp311-cp311-win_amd64.whl", "filelock"),
    wheel("torch-2.1+xpu-cp311-cp311-linux_x86_64.whl", "filelock", sha256=None),
    wheel("triton_xpu-3.7-cp311-cp311-linux_x86_64.whl"),
)


def target(*requirements: str, platform: str = "linux-64", **pip: object) -> Target:
    pip = {"index": {"vendor": ("torch",)}} | pip
    return target_of(platform, requirements=requirements or ("torch", "helper"), **pip)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    write_vendor(made.catalog, VENDOR)
    return made


@pytest.fixture
def sources() -> Iterator[PipConfig]:
    with local_index.serve({"simple": DEFAULT}, "0" * 64) as urls:
        yield PipConfig(index_url=urls["simple"])


def make_resolver(project: Project, sources: PipConfig, engine: str = "uv") -> Resolver:
    return Resolver(project.catalog, sources, run, Silent(), engine)


def make(
    target: Target, project: Project, sources: PipConfig, *, write: bool = True
) -> lock.LockResult:
    (result,) = lock.lock(
        [target], project, make_resolver(project, sources), write=write
    )
    if result.error:
        raise result.error
    return result


@pytest.mark.machine
def test_a_lock_holds_one_hashed_wheel_of_the_platform_each(
    project: Project, sources: PipConfig
) -> None:
    make(target(), project, sources)
    artifacts = {a.name: a for a in read_lock(project.lock("thing")).artifacts}
    assert set(artifacts) == {"torch", "filelock", "helper", "numpy"}
    assert (
        artifacts["numpy"].filename == "numpy-2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    )
    assert artifacts["numpy"].via == ("helper",)
    # A higher version elsewhere is never looked at.
    assert artifacts["torch"].version == "2.0+xpu"
    assert artifacts["torch"].index == "vendor"
    assert artifacts["torch"].via == ("the spec",)


@pytest.mark.machine
def test_windows_is_locked_for_windows(project: Project, sources: PipConfig) -> None:
    make(target(platform="win-64"), project, sources)
    artifacts = {a.name: a for a in read_lock(project.lock("thing")).artifacts}
    assert artifacts["colorama"].via == ("helper",)
    assert artifacts["torch"].filename == "torch-2.0+xpu-cp311-cp311-win_amd64.whl"


@pytest.mark.machine
def test_a_companion_of_another_index_is_refused_and_nothing_is_written(
    project: Project, sources: PipConfig
) -> None:
    make(target(), project, sources)
    before = (project.lock("thing") / PIP_LAYER).read_bytes()
    with pytest.raises(SpecError, match="do not work together") as error:
        make(target("torch", "torchvision"), project, sources)
    assert (
        "torchvision 0.15.1 is for torch of the index 'default'" in error.value.evidence
    )
    assert '`vendor = ["torch", "torchvision"]`' in error.value.remedy
    assert (project.lock("thing") / PIP_LAYER).read_bytes() == before


@pytest.mark.machine
def test_the_callers_extra_indexes_are_never_contacted(
    project: Project, sources: PipConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(target(), project, sources)
    expected = (project.lock("thing") / PIP_LAYER).read_bytes()
    asked: list[str] = []
    real = local_index.respond

    def answer(
        indexes: Mapping[str, Sequence[Wheel]], path: str, fallback: str | None
    ) -> local_index.Response:
        asked.append(path)
        return real(indexes, path, fallback)

    monkeypatch.setattr(local_index, "respond", answer)
    decoy = (
        wheel("torch-99.0+xpu-py3-none-any.whl"),
        wheel("nunpy-9-py3-none-any.whl"),
    )
    with local_index.serve({"decoy": decoy}, "d" * 64) as urls:
        for name in (
            "PIP_EXTRA_INDEX_URL",
            "UV_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_DEFAULT_INDEX",
            "PIP_INDEX_URL",
            "UV_FIND_LINKS",
        ):
            monkeypatch.setenv(name, urls["decoy"])
        result = make(target(), project, sources)
    assert not result.differs
    assert (project.lock("thing") / PIP_LAYER).read_bytes() == expected
    assert asked
    for path in asked:
        assert "decoy" not in path


SCRIPT = """
import pathlib, sys
from provision.artifacts.pip_config import PipConfig
from provision.commands import lock
from provision.core.process import run
from provision.core.project import Project
from provision.resolver.resolver import Resolver
from provision.spec.model import Target
from tests.lab import Silent
target = Target.model_validate_json(sys.argv[1])
project = Project(pathlib.Path(sys.argv[2]))
resolver = Resolver(project.catalog, PipConfig(sys.argv[3]), run, Silent())
(result,) = lock.lock([target], project, resolver, write=False)
assert result.error is None, (result.error.what, result.error.evidence)
sys.exit(5 if result.differs else 0)
"""


@pytest.mark.machine
def test_another_process_with_another_hash_seed_gives_the_same_bytes(
    project: Project, sources: PipConfig, tmp_path: Path
) -> None:
    spec = target()
    make(spec, project, sources)
    words = [spec.model_dump_json(), project.root, sources.index_url]
    env = {
        "PYTHONHASHSEED": "1",
        "TZ": "Pacific/Kiritimati",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "LC_ALL": "C",
        "PATH": "",
    }
    done = run([sys.executable, "-c", SCRIPT, *words], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.machine
def test_a_conflict_is_reported_in_terms_of_the_spec_and_writes_nothing(
    project: Project, sources: PipConfig
) -> None:
    with pytest.raises(SpecError) as caught:
        make(target("torch", "numpy>=2", "helper", "picky"), project, sources)
    assert caught.value.what == "thing: numpy>=2 and picky cannot be installed together"
    assert caught.value.cause == "every picky needs numpy<2"
    assert "envs/thing.toml requires picky" in caught.value.evidence
    assert "torch" not in caught.value.evidence
    assert "we can conclude" in caught.value.__cause__.evidence  # kept for --debug
    assert not project.lock("thing").exists()


@pytest.mark.machine
def test_every_fault_is_reported(project: Project, sources: PipConfig) -> None:
    with pytest.raises(SpecError) as caught:
        make(
            target("torch", "numpy==1.27", "nosuch", "torchvision>=0.16"),
            project,
            sources,
        )
    assert caught.value.what == "thing: numpy==1.27 is not available, and 2 more errors"
    assert caught.value.cause.splitlines() == [
        "there is no numpy==1.27",
        "the nearest versions of numpy that fit: 2.0, 1.26",
        "no index has a package nosuch",
        "there is only torchvision==0.15.1",
        "the nearest versions of torchvision that fit: 0.15.1",
    ]


@pytest.mark.machine
def test_a_source_only_package_is_reported_by_name(project: Project) -> None:
    sdist = wheel("old-1.0-py3-none-any.whl")
    with local_index.serve({"simple": (sdist,)}, "5" * 64) as urls:
        real = local_index.project_page
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                local_index,
                "project_page",
                lambda name, wheels: as_sdist(real(name, wheels)),
            )
            with pytest.raises(SpecError) as caught:
                make(
                    target("old", index={}),
                    project,
                    PipConfig(index_url=urls["simple"]),
                )
    assert caught.value.what == "thing: there is no wheel of old, only source"
    assert 'build = ["old"]' in caught.value.remedy


def as_sdist(page: dict[str, object]) -> dict[str, object]:
    (file,) = page["files"]
    return page | {"files": [file | {"filename": "old-1.0.tar.gz"}]}


@pytest.mark.machine
def test_one_targets_failure_leaves_the_others(
    project: Project, sources: PipConfig
) -> None:
    good, bad = target(), target("nowhere").model_copy(update={"name": "other"})
    results = lock.lock([bad, good], project, make_resolver(project, sources))
    assert [bool(result.error) for result in results] == [True, False]
    assert project.lock("thing").is_dir()
    assert not project.lock("other").exists()


@pytest.mark.machine
def test_a_failed_upgrade_leaves_the_spec_as_it_was(
    project: Project, sources: PipConfig
) -> None:
    make(target(), project, sources)
    path = project.specs / "thing.toml"
    path.write_text(SPEC)
    later = dt.date(2026, 11, 20)
    assert edit_spec.move_cutoff(path, "Helper", later).pip.cutoffs == {"helper": later}
    with pytest.raises(UsageError, match="default index"):
        edit_spec.move_cutoff(path, "torch", later)
    path.write_text(SPEC.replace("helper", "nowhere"))
    edit = functools.partial(edit_spec.move_cutoff, package=None, day=later)
    with pytest.raises(SpecError, match="nowhere") as caught:
        edit_and_lock(["thing"], edit, project, make_resolver(project, sources))
    assert "put back as before" in caught.value.evidence
    assert "2026-11-01 # why" in path.read_text()


@pytest.mark.machine
def test_the_remedy_of_an_undone_edit_names_no_line_that_is_gone(
    project: Project, sources: PipConfig
) -> None:
    path = project.specs / "thing.toml"
    text = SPEC.replace('["torch", "helper"]', '[\n  "torch",\n  "helper",\n]')
    assert text != SPEC
    resolver = make_resolver(project, sources)

    def remedy_of(*added: str) -> str:
        path.write_text(text)
        edit = functools.partial(edit_spec.add_to, requirements=added)
        with pytest.raises(SpecError) as caught:
            edit_and_lock(["thing"], edit, project, resolver)
        assert path.read_text() == text
        return caught.value.remedy

    again = "check the name and the version, then run `provision add` again"
    assert remedy_of("nosuch") == again
    # A line that stays is named as it is then.
    line = text.splitlines().index('  "helper",') + 1
    path.write_text(text.replace('"helper"', '"nowhere"'))

    def move_down(path: Path) -> None:
        rewrite(path, f"# a new first line\n{path.read_text()}")

    with pytest.raises(SpecError) as caught:
        edit_and_lock(["thing"], move_down, project, resolver)
    assert caught.value.remedy == f"change envs/thing.toml, line {line}"


SPEC = """\
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01 # why
requirements = ["torch", "helper"]
[pip.index]
vendor = ["torch"]
"""


@pytest.mark.machine
def test_pip_tools_accepts_the_lock_and_notices_a_wrong_one(
    project: Project, sources: PipConfig
) -> None:
    pytest.importorskip("piptools", reason="the group pip-tools is not installed")
    spec = target("torch", "filelock")
    make(spec, project, sources)
    asked = make_resolver(project, sources)
    assert lock.confirm_with_pip_tools(spec, project, asked).differences == ()
    path = project.lock("thing") / PIP_LAYER
    kept = path.read_text()
    path.write_text(
        sealed(kept[: kept.index("filelock==")] + kept[kept.index("torch==") :])
    )
    (change,) = lock.confirm_with_pip_tools(spec, project, asked).differences
    assert change.name == "filelock"
    assert change.before is None
    assert change.after == "3.0"
    path.write_text(sealed(re.sub(r"(torch[=-]+)2\.0\+xpu", r"\g<1>99.0", kept)))
    with pytest.raises(SpecError, match="no solution"):
        lock.confirm_with_pip_tools(spec, project, asked)


def test_pip_tools_says_what_it_cannot_do(project: Project) -> None:
    pytest.importorskip("piptools", reason="the group pip-tools is not installed")
    for spec in (
        target(platform="win-64"),
        target(overrides=({"requirement": "torch==2", "reason": "because"},)),
    ):
        (result,) = lock.lock(
            [spec], project, make_resolver(project, PipConfig(), "pip-tools")
        )
        assert isinstance(result.error, UsageError)


def test_a_name_that_its_catalog_cannot_serve_is_refused_before_resolving(
    project: Project,
) -> None:
    spec = target(index={"vendor": ("torch", "pytorch-triton-xpu")})
    with pytest.raises(SpecError, match="no usable wheel of pytorch-triton-xpu"):
        resolver.offered(spec, project.catalog)


def artifact(name: str, version: str, sha256: str = "a" * 64) -> Artifact:
    filename = f"{name}-{version}-py3-none-any.whl"
    return Artifact(name, version, filename, sha256, 1, "default", ("the spec",))


def test_changes_are_reported_by_kind() -> None:
    before = {"a": "1", "b": "1.9", "c": "2", "e": "1"}
    after = {"b": "1.10", "c": "1.0", "d": "1", "e": "1"}
    old = [artifact(*item) for item in before.items()]
    new = [artifact(*item, "b" * 64) for item in after.items()]
    found = {change.name: change.kind for change in diff_artifacts(old, new)}
    assert found == {"a": "removed", "b": "up", "c": "down", "d": "added", "e": "file"}


def test_a_lock_is_stale_when_its_spec_or_its_catalog_changed(project: Project) -> None:
    spec = target()
    text = render_requirements(
        resolver.header(spec, catalog_digest(project.catalog, spec), None, "uv"),
        [artifact("torch", "2.0+xpu")],
    )
    folder = project.lock("thing")
    folder.mkdir(parents=True)
    (folder / PIP_LAYER).write_text(text)
    fixed = read_lock(folder)
    assert freshness.staleness(spec, project.catalog, fixed) is None
    changed = freshness.staleness(target("torch"), project.catalog, fixed)
    assert "thing.toml" in str(changed)
    path = project.catalog / "vendor.json"
    path.write_text(path.read_text().replace('"filelock"', '"filelock>=3"'))
    assert "catalog" in str(freshness.staleness(spec, project.catalog, fixed))


@pytest.mark.parametrize("text", ["", "# conda: 0\n"])
def test_attack_a_conda_layer_that_is_not_the_locked_one_is_refused(
    project: Project, text: str
) -> None:
    (project.catalog / "forge.json").write_text(
        '{"url": "https://example.org/", "packages": []}'
    )
    spec = target().model_copy(
        update={"conda": Conda(channels=("forge",), dependencies=("x",))}
    )
    header = resolver.header(
        spec, catalog_digest(project.catalog, spec), "the conda layer", "uv"
    )
    pip = render_requirements(header, [artifact("torch", "2.0+xpu")])
    folder = project.lock("thing")
    fresh = parse_lock(folder, pip, "the conda layer")
    assert freshness.staleness(spec, project.catalog, fresh) is None
    with pytest.raises(SpecError, match=r"conda-lock\.yml is not the one"):
        parse_lock(folder, pip, text or None)
