"""One spec with faults among others: what shows all targets shows the others all the same."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from provision.cli.main import main
from provision.core.errors import Exit
from tests.small import TARGET, Index, lock, make_project, make_wheel

if TYPE_CHECKING:
    from pathlib import Path

    from provision.core.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path, Index(tmp_path / "index", "https://example.org"))
    lock(made, [make_wheel(tmp_path / "default", "alpha", "1.0", {})])
    (made.specs / "bad.toml").write_text('acelerator = "cpu"\n[conda]\nchannels = []\n')
    return made


def call(
    capsys: pytest.CaptureFixture[str], project: Project, *words: str
) -> tuple[int, list[dict[str, Any]]]:
    code = main([*words, "--json", "--project", str(project.root)])
    found = json.loads(capsys.readouterr().out)["result"]
    return code, found["rows"] if isinstance(found, dict) else found


def test_targets_shows_the_faults_in_its_row(
    capsys: pytest.CaptureFixture[str], project: Project
) -> None:
    code, (bad, good) = call(capsys, project, "targets")
    assert code == Exit.USAGE
    assert good["name"] == TARGET
    assert good["lock"] == "fresh"
    assert bad["name"] == "bad"
    assert bad["lock"] == "unreadable"
    assert bad["built"] == "no"
    assert "bad.toml has " in bad["summary"]
    assert "conda.channels: is empty" in bad["summary"]
    assert main(["targets", "--project", str(project.root)]) == Exit.USAGE
    shown = capsys.readouterr().out
    assert "fresh" in shown
    assert re.search(r"^bad +unreadable +unreadable +no +none +see below$", shown, re.M)
    assert shown.count("conda.channels: is empty") == 1


def test_lock_check_judges_the_others(
    capsys: pytest.CaptureFixture[str], project: Project
) -> None:
    code, (good, bad) = call(capsys, project, "lock", "--check")
    assert code == Exit.USAGE
    assert good == {
        "target": TARGET,
        "stale": None,
        "error": None,
        "without_record": [],
    }
    assert "did you mean `accelerator`?" in bad["error"]["evidence"]
    assert main(["lock", "--check", "--project", str(project.root)]) == Exit.USAGE
    shown = capsys.readouterr()
    assert f"{TARGET}: fresh" in shown.out
    assert "did you mean `accelerator`?" in shown.err


def test_an_index_without_a_catalog_is_taken_for_a_slip(
    capsys: pytest.CaptureFixture[str], project: Project
) -> None:
    (project.specs / "bad.toml").unlink()
    spec = project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace("vendor =", "vendr ="))
    assert main(["lock", "--project", str(project.root)]) == Exit.USAGE
    shown = " ".join(capsys.readouterr().err.split())
    assert "there is no catalog of 'vendr'" in shown
    assert "did you mean `vendor`?" in shown
    assert "update vendr --url URL" in shown
