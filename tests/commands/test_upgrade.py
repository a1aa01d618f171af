from __future__ import annotations

import datetime as dt
import tomllib
from typing import TYPE_CHECKING

import pytest

from provision.commands import edit_spec
from provision.core.errors import UsageError
from provision.core.project import Project
from provision.lockfile.pip import PIP_LAYER, Artifact, render_requirements

if TYPE_CHECKING:
    from pathlib import Path

SPEC = """\
# why this target is here
summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"

[pip]
cutoff = 2026-11-01 # the day of the release
requirements = [
    "torch", # the reason
    "numpy",
]
"""
DAY = dt.date(2026, 11, 20)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.specs.mkdir()
    project.lock("thing").mkdir(parents=True)
    wheels = [
        Artifact(
            name,
            "1.0",
            f"{name}-1.0-py3-none-any.whl",
            "0" * 64,
            1,
            "default",
            ("the spec",),
        )
        for name in ("torch", "numpy")
    ]
    text = render_requirements({"python": "3.11", "platform": "linux-64"}, wheels)
    (project.lock("thing") / PIP_LAYER).write_text(text)
    return project


def moved(project: Project, text: str, package: str | None) -> str:
    path = project.specs / "thing.toml"
    path.write_text(text)
    edit_spec.move_cutoff(path, package, DAY)
    return path.read_text()


def test_all_packages_move_and_the_rest_of_the_file_stays(project: Project) -> None:
    assert moved(project, SPEC, None) == SPEC.replace("2026-11-01", "2026-11-20")


def test_one_package_gets_a_cutoff_of_its_own_until_all_move(project: Project) -> None:
    one = moved(project, SPEC, "Torch")
    two = moved(project, one, "numpy")
    assert tomllib.loads(two)["pip"]["cutoffs"] == {"torch": DAY, "numpy": DAY}
    assert tomllib.loads(two)["pip"]["cutoff"] == dt.date(2026, 11, 1)
    assert '"torch", # the reason' in two
    assert moved(project, two, None) == SPEC.replace("2026-11-01", "2026-11-20")


def test_of_all_targets_those_are_moved_that_have_the_package(project: Project) -> None:
    path = project.specs / "thing.toml"
    path.write_text(SPEC)
    (project.specs / "other.toml").write_text(SPEC)
    project.lock("other").mkdir()
    wheel = Artifact(
        "six", "1.0", "six-1.0-py3-none-any.whl", "0" * 64, 1, "default", ("numpy",)
    )
    text = render_requirements({"python": "3.11", "platform": "linux-64"}, [wheel])
    (project.lock("other") / PIP_LAYER).write_text(text)
    assert (project.lock("thing") / PIP_LAYER).is_file()
    assert edit_spec.upgradable(project, [], "NumPy") == ["thing"]
    assert edit_spec.upgradable(project, ["thing"], "numpy") == ["thing"]
    with pytest.raises(UsageError, match="no package flask to upgrade in other, thing"):
        edit_spec.upgradable(project, [], "flask")
    with pytest.raises(UsageError, match=r"to upgrade in other$"):
        edit_spec.upgradable(project, ["thing", "other"], "numpy")
    with pytest.raises(UsageError) as caught:
        edit_spec.upgradable(project, ["thing"], "other")
    assert "`provision lock thing other --upgrade`" in caught.value.remedy


def test_what_another_package_requires_is_said_to_stay(project: Project) -> None:
    (project.specs / "thing.toml").write_text(SPEC)
    said = ["thing: numpy stays in the lock, for the spec"]
    assert list(edit_spec.still_locked(project, ["thing"], ["NumPy>=1", "six"])) == said
    names = edit_spec.named_targets(project, "all")
    assert list(edit_spec.still_locked(project, names, ["numpy"])) == said
