"""Public projects' real requirements: what init makes of them, and what came of locking them."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.project import Project
from tests.projects.record import HERE, PAGE, PROJECTS, RESULTS, lock_target, open_project, page
from tests.projects.record import provision as run_provision

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text("utf-8"))
TARGETS = ("cuda-linux", "arc-windows")


def of_init(name: str, folder: Path) -> dict[str, Any]:
    """Return what init lists for a project, by its place, and what the specs add to a target."""
    init = pytest.importorskip("provision.commands.init")
    root = open_project(name, folder)
    made = init.initialize(Project(root), TARGETS)
    specs = {t: tomllib.loads((root / "envs" / f"{t}.toml").read_text("utf-8")) for t in TARGETS}
    listed = {target.name: _places([*target.done, *target.left]) for target in made.targets}
    added = {t: spec.get("pip", {}) for t, spec in specs.items()}
    return {"left": _places(made.left), "listed": listed, "added": added}


def _places(lines: Iterable[str]) -> list[str]:
    return [line.partition(": ")[0] for line in lines]


@pytest.mark.parametrize("name", PROJECTS)
def test_init_carries_the_requirements_and_lists_the_rest(name: str, tmp_path: Path) -> None:
    assert of_init(name, tmp_path) == EXPECTED[name]


@pytest.mark.parametrize("name", PROJECTS)
def test_a_fixture_has_names_and_versions_only(name: str) -> None:
    """No sentence of a project's own, and no host but those of code and of vendors' wheels."""
    for path in (HERE / name).rglob("*"):
        text = path.read_text("utf-8")
        assert not [line for line in text.splitlines() if line.lstrip().startswith("#")], path
        hosts = {part.split("/")[0] for part in text.split("://")[1:]}
        assert hosts <= {"github.com", "download.pytorch.org"}, path


def test_the_page_has_the_results() -> None:
    results = json.loads(RESULTS.read_text("utf-8"))
    assert list(results) == [name for name in PROJECTS if name in results]
    assert PAGE.read_text("utf-8") == page(results)


@pytest.mark.network
@pytest.mark.parametrize("name", ["whisper", "comfyui", "llama-factory"])
def test_a_project_locks_for_two_accelerators_without_a_word(name: str, tmp_path: Path) -> None:
    pytest.importorskip("provision.commands.init")
    root = open_project(name, tmp_path)
    run_provision(root, "init", *(f"--target={target}" for target in TARGETS))
    for target in TARGETS:
        result = lock_target(root, target)
        assert (result["why"], result["said"]) == ("", "")
        assert result["torch"]
        assert result["packages"] > len(PROJECTS[name]["imports"])
