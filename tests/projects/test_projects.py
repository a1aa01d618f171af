"""Public projects' real requirements: what init makes of them, and what came of locking them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.projects.record import (
    EXPECTED,
    FITTED,
    HERE,
    PAGE,
    PROJECTS,
    RESULTS,
    lock_target,
    of_init,
    open_project,
    page,
)
from tests.projects.record import provision as run_provision

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", PROJECTS)
def test_init_carries_the_requirements_and_lists_the_rest(
    name: str, tmp_path: Path
) -> None:
    """A deliberate change is accepted with `python -m tests.projects.record --expected`."""
    assert of_init(name, tmp_path) == json.loads(EXPECTED.read_text("utf-8"))[name]


@pytest.mark.parametrize("name", PROJECTS)
def test_a_fixture_has_names_and_versions_only(name: str) -> None:
    """No sentence of a project's own, and no host but those of code and of vendors' wheels."""
    for path in (HERE / name).rglob("*"):
        text = path.read_text("utf-8")
        assert not [
            line for line in text.splitlines() if line.lstrip().startswith("#")
        ], path
        hosts = {part.split("/")[0] for part in text.split("://")[1:]}
        assert hosts <= {"github.com", "download.pytorch.org"}, path


def test_the_page_has_the_results() -> None:
    results = json.loads(RESULTS.read_text("utf-8"))
    assert list(results) == [name for name in PROJECTS if name in results]
    assert PAGE.read_text("utf-8") == page(results)


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("whisper", FITTED[1:]),
        pytest.param("whisper", FITTED[:1], marks=pytest.mark.slow),
        pytest.param("comfyui", FITTED, marks=pytest.mark.slow),
        pytest.param("llama-factory", FITTED, marks=pytest.mark.slow),
    ],
)
def test_a_project_locks_for_two_accelerators_without_a_word(
    name: str, targets: tuple[str, ...], tmp_path: Path
) -> None:
    root = open_project(name, tmp_path)
    run_provision(root, "init", *(f"--target={target}" for target in FITTED))
    for target in targets:
        result = lock_target(root, target)
        assert (result["why"], result["said"]) == ("", "")
        assert result["torch"]
        assert result["packages"] > len(PROJECTS[name]["imports"])
