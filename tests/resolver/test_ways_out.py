"""Faults of real resolves name the lines at fault, and each line that they tell to write helps."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
import tomlkit

from provision.artifacts.pip_config import PipConfig
from provision.commands import lock
from provision.core.errors import ProvisionError
from provision.core.process import run
from provision.core.project import Project
from provision.resolver import local_index
from provision.resolver.resolver import Resolver
from provision.spec.reader import load_spec
from tests.commands.test_lock import wheel
from tests.lab import Silent
from tests.small import write_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.machine

VENDOR = (
    wheel("torch-2.0+xpu-py3-none-any.whl", "tools>=3"),
    wheel("torch-1.6+xpu-cp312-cp312-linux_x86_64.whl"),
    wheel("torch-2.8+xpu-py3-none-any.whl", "tools<5"),
)
DEFAULT = (
    wheel("tools-4.0-py3-none-any.whl"),
    wheel("tools-5.0-py3-none-any.whl"),
    wheel("numpy-1.26-py3-none-any.whl"),
    wheel("numpy-2.0-py3-none-any.whl"),
    wheel("picky-1.0-py3-none-any.whl", "numpy<2"),
    wheel("chain-1.0-py3-none-any.whl", "picky"),
    wheel("vision-1.0-py3-none-any.whl", "torch==2.8"),
    wheel("modern-1.0-py3-none-any.whl", requires_python=">=3.13"),
    wheel("old_one-1.0-py3-none-any.whl"),
    wheel("olden-1.0-py3-none-any.whl", "old-one"),
)
BASE = """\
summary = "a target"
accelerator = "xpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 9999-01-01
requirements = [
    "torch==2.8+xpu",
    "numpy>=2",
]
[pip.index]
vendor = ["torch"]
"""
SPEC = 'extends = "base/all"\n[pip]\nfiles = ["needs.txt"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    write_vendor(made.catalog, VENDOR)
    (tmp_path / "envs" / "base").mkdir()
    (tmp_path / "envs" / "base" / "all.toml").write_text(BASE)
    (tmp_path / "envs" / "thing.toml").write_text(SPEC)
    return made


def as_sdist(page: dict[str, object]) -> dict[str, object]:
    """Return a page of an index without the wheels of what is called old."""
    if "old" not in str(page["name"]):
        return page
    (file,) = page["files"]
    name = str(file["filename"]).removesuffix("-py3-none-any.whl")
    return page | {"files": [file | {"filename": f"{name}.tar.gz"}]}


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[PipConfig]:
    real = local_index.project_page

    def page(name: str, wheels: object) -> dict[str, object]:
        made = real(name, wheels)
        return as_sdist(made) if name == "old-one" else made

    monkeypatch.setattr(local_index, "project_page", page)
    with local_index.serve({"simple": DEFAULT}, "7" * 64) as urls:
        yield PipConfig(index_url=urls["simple"])


def locked(project: Project, index: PipConfig, progress: Silent) -> lock.LockResult:
    target = load_spec(project.specs / "thing.toml")
    resolver = Resolver(project.catalog, index, run, progress)
    (result,) = lock.lock([target], project, resolver, write=False)
    return result


def refused(
    project: Project, index: PipConfig, needs: str, progress: Silent | None = None
) -> ProvisionError:
    (project.root / "needs.txt").write_text(needs)
    result = locked(project, index, progress or Silent())
    assert result.error
    return result.error


def follow(way: str, project: Project) -> None:
    """Do what a line of a remedy says: write its lines into the spec, or add what it adds."""
    path = project.specs / "thing.toml"
    document = tomlkit.parse(path.read_text())
    for told in re.findall(r"`([^`]+)`", way):
        if told.startswith("provision add thing "):
            *pins, option = shlex.split(told)[3:]
            assert option == "--only-here"
            document["pip"]["requirements"] = pins
        else:
            table = document if told.startswith("python = ") else document["pip"]
            table.update(tomlkit.parse(told))
    path.write_text(tomlkit.dumps(document))


NUMPY = "envs/base/all.toml, line 9 requires numpy>=2"
TORCH = "envs/base/all.toml, line 8 requires torch==2.8+xpu"
IN_PIP = "into [pip] of envs/thing.toml"
# What needs.txt says -> the evidence, and each way out; all of them are tried.
FAULTS = {
    "two lines about one distribution": (
        "# a comment\nnumpy<2\n",
        [NUMPY, "needs.txt, line 2 requires numpy<2"],
        [
            f'`drop = ["numpy"]` {IN_PIP}',
            (
                '`overrides = [{ requirement = "numpy>=2", '
                f'reason = "needs.txt, line 2 requires numpy<2" }}]` {IN_PIP}'
            ),
        ],
    ),
    "a package that needs another version of what is inherited": (
        "chain\n",
        [NUMPY, "needs.txt, line 1 requires chain"],
        [f'write `drop = ["numpy"]` {IN_PIP}'],
    ),
    "a torch that the target's catalog has": (
        "torch==2.0\n",
        [TORCH, "needs.txt, line 1 requires torch==2.0"],
        [
            "`provision add thing 'torch==2.0+xpu' --only-here`",
            (
                '`overrides = [{ requirement = "torch==2.8+xpu", '
                'reason = "needs.txt, line 1 requires torch==2.0" }]`'
            ),
        ],
    ),
    "a torch that it does not have": (
        "torch==1.7.0+cu128\n",
        ["needs.txt, line 1 requires torch==1.7.0+cu128"],
        [
            (
                'write `overrides = [{ requirement = "torch==2.8+xpu", '
                'reason = "needs.txt, line 1 requires torch==1.7.0+cu128" }]`'
            ),
        ],
    ),
    "a torch that it has for another Python": (
        "torch==1.6\n",
        ["needs.txt, line 1 requires torch==1.6"],
        [
            (
                'write `python = "3.12"` into envs/thing.toml, and '
                "`provision add thing 'torch==1.6+xpu' --only-here`"
            ),
            '`overrides = [{ requirement = "torch==2.8+xpu", ',
        ],
    ),
    "a release of torch in another build": (
        "torch==2.0+cu118\n",
        ["needs.txt, line 1 requires torch==2.0+cu118"],
        [
            (
                '`overrides = [{ requirement = "torch==2.0", '
                'reason = "needs.txt, line 1 requires torch==2.0+cu118" }]`'
            ),
            '`overrides = [{ requirement = "torch==2.8+xpu", ',
        ],
    ),
    "a package that another torch of the catalog allows": (
        "tools>=5\n",
        [TORCH, "needs.txt, line 1 requires tools>=5"],
        [
            "`provision add thing 'torch==2.0+xpu' --only-here`",
            (
                '`overrides = [{ requirement = "tools==4.0", '
                'reason = "needs.txt, line 1 requires tools>=5" }]`'
            ),
        ],
    ),
    "a package that another torch allows, which a third one does not": (
        "tools>=5\nvision\n",
        [TORCH, "needs.txt, line 1 requires tools>=5"],
        [
            (
                '`overrides = [{ requirement = "tools>=5", '
                'reason = "torch>=2.8+xpu needs tools<5" }]`'
            ),
            (
                '`overrides = [{ requirement = "tools==4.0", '
                'reason = "needs.txt, line 1 requires tools>=5" }]`'
            ),
        ],
    ),
    "two faults, whose lines for the spec are one of each key": (
        "numpy<2\ntorch==1.0\n",
        [
            NUMPY,
            "needs.txt, line 1 requires numpy<2",
            "needs.txt, line 2 requires torch==1.0",
        ],
        [
            '`drop = ["numpy"]` and `overrides = [{ requirement = "torch==2.8+xpu", ',
            (
                '`overrides = [{ requirement = "numpy>=2", '
                'reason = "needs.txt, line 1 requires numpy<2" }, '
                '{ requirement = "torch==2.8+xpu", '
            ),
        ],
    ),
    "a newer Python": (
        "modern\n",
        ["needs.txt, line 1 requires modern"],
        ['write `python = "3.13"` into envs/thing.toml, or change needs.txt, line 1'],
    ),
}


# One for each kind of line that is told; the others at night.
FIRST = (
    "two lines about one distribution",
    "a package that needs another version of what is inherited",
    "a torch that the target's catalog has",
    "a package that another torch of the catalog allows",
    "a newer Python",
)


@pytest.mark.parametrize(
    "name",
    [
        name if name in FIRST else pytest.param(name, marks=pytest.mark.slow)
        for name in FAULTS
    ],
)
def test_each_line_at_fault_is_named_and_each_way_out_helps(
    name: str, project: Project, index: PipConfig
) -> None:
    needs, evidence, ways = FAULTS[name]
    error = refused(project, index, needs)
    assert error.evidence.splitlines() == evidence
    told = error.remedy.splitlines()
    assert len(told) == len(ways)
    spec = project.specs / "thing.toml"
    for way, wanted in zip(told, ways, strict=True):
        assert wanted in way
        spec.write_text(SPEC)
        follow(way, project)
        assert locked(project, index, Silent()).error is None


def test_of_what_only_files_say_both_places_are_told(
    project: Project, index: PipConfig
) -> None:
    error = refused(project, index, "picky\nnumpy>=2\n")
    assert error.evidence.splitlines() == [
        "needs.txt, line 2 requires numpy>=2",
        "needs.txt, line 1 requires picky",
    ]
    assert error.remedy == "change needs.txt, line 2 or needs.txt, line 1"


def test_a_limit_is_named_where_it_stands(project: Project, index: PipConfig) -> None:
    (project.root / "limits.txt").write_text("\nnumpy<1.26\n")
    error = refused(project, index, "picky\n-c limits.txt\n")
    assert "limits.txt, line 2 limits numpy<1.26" in error.evidence.splitlines()


def test_what_lacks_a_build_is_told_beside_other_faults(
    project: Project, index: PipConfig
) -> None:
    error = refused(project, index, "olden\nnumpy<2\n")
    assert error.what.endswith("cannot be installed together, and 1 more error")
    assert "needs.txt, line 1 requires olden" in error.evidence
    assert "olden==1.0 needs old-one" in error.cause.replace(
        "every olden", "olden==1.0"
    )
    for way in error.remedy.splitlines():
        assert '`build = ["old-one"]`' in way


def test_an_old_version_without_a_wheel_is_no_reason_to_build(
    project: Project,
) -> None:
    """uv says that wheels are required, although a later one is in conflict with another line."""
    later = wheel("old_one-2.0-py3-none-any.whl", "numpy<2")
    with local_index.serve({"simple": (*DEFAULT, later)}, "8" * 64) as urls:
        real = local_index.project_page

        def page(name: str, wheels: object) -> dict[str, object]:
            made = real(name, wheels)
            if name == "old-one":
                first, second = sorted(made["files"], key=lambda file: file["filename"])
                source = first | {"filename": "old_one-1.0.tar.gz"}
                made = made | {"files": [source, second]}
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local_index, "project_page", page)
            error = refused(project, PipConfig(index_url=urls["simple"]), "old-one\n")
    assert error.remedy == f'write `drop = ["numpy"]` {IN_PIP}'


def test_a_drop_that_does_not_end_the_error_is_not_told(project: Project) -> None:
    """Without the inherited line, two packages of the project still exclude each other."""
    heavy = wheel("heavy-1.0-py3-none-any.whl", "numpy>=2")
    with local_index.serve({"simple": (*DEFAULT, heavy)}, "9" * 64) as urls:
        error = refused(project, PipConfig(index_url=urls["simple"]), "chain\nheavy\n")
    assert NUMPY in error.evidence
    assert "drop" not in error.remedy


@pytest.mark.parametrize(
    ("families", "remedy"),
    [
        (["pvc"], "`provision init --target max-linux-older` adds a target"),
        (["g80"], "change needs.txt, line 1"),  # of which none is shipped
    ],
)
def test_what_the_target_forbids_is_in_no_index_to_write(
    project: Project, families: list[str], remedy: str
) -> None:
    """As torch 2.8 on the newer targets of Intel, whose older ones allow what it requires."""
    base = project.specs / "base" / "all.toml"
    forbid = 'forbid = [{ name = "pytorch-triton-xpu", reason = "it is old" }]\n'
    hardware = f"[hardware]\nfamilies = {json.dumps(families)}\n"
    base.write_text(BASE.replace("[pip]\n", f"{hardware}[pip]\n{forbid}"))
    needer = wheel("needer-1.0-py3-none-any.whl", "pytorch-triton-xpu==3.4.0")
    with local_index.serve({"simple": (*DEFAULT, needer)}, "a" * 64) as urls:
        error = refused(project, PipConfig(index_url=urls["simple"]), "needer\n")
    assert "thing forbids pytorch-triton-xpu: it is old" in error.cause
    assert error.remedy.startswith(remedy)


OWN = {
    "an unknown name": (
        'version = "1"\ndependencies = [\n    "nosuch",\n]\n',
        "app/pyproject.toml, line 8 requires nosuch",
        "change app/pyproject.toml, line 8",
    ),
    "a version that is inherited otherwise": (
        'version = "1"\ndependencies = ["numpy<2"]\n',
        "app/pyproject.toml, line 7 requires numpy<2",
        '`drop = ["numpy"]`',
    ),
    "a newer Python": (
        'version = "1"\nrequires-python = ">=3.13"\n',
        "app/pyproject.toml, line 7 requires Python>=3.13",
        'write `python = "3.13"` into envs/thing.toml, or change app/pyproject.toml, line 7',
    ),
}
HEAD = (
    '[build-system]\nrequires = []\nbuild-backend = "none"\n[project]\nname = "app"\n'
)


@pytest.mark.parametrize("name", OWN)
def test_the_fault_of_an_own_package_is_at_its_own_line(
    name: str, project: Project, index: PipConfig
) -> None:
    text, evidence, remedy = OWN[name]
    head = HEAD.replace('name = "app"\n', 'name = "app"\n')
    (project.root / "app").mkdir()
    (project.root / "app" / "pyproject.toml").write_text(head + text)
    error = refused(project, index, "tools\n-e app\n")
    assert evidence in error.evidence.splitlines()
    assert "tools" not in error.evidence
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("fails", "evidence", "remedy"),
    [
        ("raise SystemExit('no version')", "no version", "correct its build"),
        (
            "import torch.utils",
            "No module named 'torch'",
            "name torch in `requires` of [build-system] in its pyproject.toml",
        ),
    ],
)
def test_an_own_package_whose_build_fails_is_named(
    project: Project, index: PipConfig, fails: str, evidence: str, remedy: str
) -> None:
    base = project.specs / "base" / "all.toml"
    base.write_text(BASE.replace("[pip]\n", '[pip]\nlocal = ["-e app"]\n'))
    (project.root / "app").mkdir()
    backend = f"def get_requires_for_build_editable(_=None):\n    {fails}\n"
    (project.root / "app" / "none.py").write_text(backend)
    text = HEAD.replace('"none"', '"none"\nbackend-path = ["."]')
    (project.root / "app" / "pyproject.toml").write_text(
        f'{text}dynamic = ["version"]\n'
    )
    error = refused(project, index, "tools\n")
    assert "-e app (envs/base/all.toml, line 6)" in error.what
    assert evidence in error.evidence
    assert error.remedy.startswith(remedy)


def test_an_own_package_that_is_none_is_named_with_its_place(
    project: Project, index: PipConfig
) -> None:
    (project.root / "empty").mkdir()
    error = refused(project, index, "tools\n-e empty\n")
    assert "needs.txt, line 2: -e empty: " in error.evidence
    assert error.evidence.endswith("has neither pyproject.toml nor setup.py")


BACKEND = """
def get_requires_for_build_editable(config_settings=None):
    return []


def prepare_metadata_for_build_editable(folder, config_settings=None):
    import pathlib
    made = pathlib.Path(folder, "app-1.5.dist-info")
    made.mkdir()
    text = "Metadata-Version: 2.1\\nName: app\\nVersion: 1.5\\nRequires-Dist: picky\\n"
    made.joinpath("METADATA").write_text(text)
    return made.name


build_editable = None
"""


def test_an_own_package_may_leave_its_version_to_its_build(
    project: Project, index: PipConfig
) -> None:
    (project.root / "app").mkdir()
    (project.root / "app" / "none.py").write_text(BACKEND)
    text = HEAD.replace('"none"', '"none"\nbackend-path = ["."]')
    (project.root / "app" / "pyproject.toml").write_text(
        f'{text}dynamic = ["version", "dependencies"]\n'
    )
    (project.root / "needs.txt").write_text("-e app\n")
    error = refused(project, index, "-e app\n")
    assert error.evidence.splitlines() == [NUMPY, "needs.txt, line 1 requires -e app"]
    follow(error.remedy, project)
    assert locked(project, index, Silent()).error is None
