"""``doctor --project DIR`` on repositories of any origin, and where it only names a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.cli.main import main

pytestmark = pytest.mark.machine
PAIRS = Path(__file__).parents[1] / "doctor" / "repositories"


def test_a_foreign_repository_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    folder = PAIRS / "prime-rl-hashes" / "before"
    assert main(["doctor", "--project", str(folder), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["patient"] == str(folder)
    assert "uv.lock" in result["facts"]
    assert [f["code"] for f in result["findings"] if f["level"] != "note"] == ["lock-unhashed"]


def test_a_mended_one_is_left_alone() -> None:
    assert main(["doctor", "--project", str(PAIRS / "sleap-nn-479" / "after")]) == 0


def test_a_folder_without_locks_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--project", str(tmp_path)]) == 2
    assert "uv.lock" in capsys.readouterr().err


def test_a_project_with_specs_alone_is_only_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs").mkdir()
    main(["doctor", "--project", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out)["result"]["patient"] == "this machine"
