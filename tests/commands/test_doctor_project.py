"""``doctor --project DIR`` on repositories of any origin, and where it only names a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.cli.main import main
from provision.core.project import Project
from provision.spec.reader import target_names

pytestmark = pytest.mark.machine
CLONE = Project(Path(__file__).parents[2])
TARGETS = target_names(CLONE.specs)
PAIRS = Path(__file__).parents[1] / "doctor" / "repositories"


def test_a_foreign_repository_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    folder = PAIRS / "prime-rl-hashes" / "before"
    assert main(["doctor", "--project", str(folder), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)["result"]
    assert result["examined"] == str(folder)
    assert "uv.lock" in result["facts"]
    assert [f["code"] for f in result["findings"] if f["level"] != "note"] == [
        "lock-unhashed"
    ]


def test_a_mended_one_is_left_alone() -> None:
    assert main(["doctor", "--project", str(PAIRS / "sleap-nn-479" / "after")]) == 0


def test_a_folder_without_locks_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--project", str(tmp_path)]) == 2
    assert "uv.lock" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_powershell_wrote_is_judged_as_another(
    tmp_path: Path, encoding: str
) -> None:
    text = "torch==2.13.0+cpu\r\ntorchvision==0.20.0\r\n"
    (tmp_path / "requirements.txt").write_text(text, encoding)
    assert main(["doctor", "--project", str(tmp_path)]) == 1


def test_a_project_with_specs_alone_is_only_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs").mkdir()
    main(["doctor", "--project", str(tmp_path), "--json"])
    shown = capsys.readouterr()
    assert json.loads(shown.out)["result"]["examined"] == "this machine"
    assert (
        f"{tmp_path} has no file of another tool that the doctor examines" in shown.err
    )


@pytest.mark.parametrize(
    "target", sorted(name for name in TARGETS if CLONE.lock(name).is_dir())
)
def test_what_is_exported_from_a_shipped_lock_has_no_findings(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requirements.txt"
    words = ["export", target, "--format", "requirements", "-o", str(file)]
    assert main([*words, "--project", str(CLONE.root)]) == 0
    assert main(["doctor", "--project", str(tmp_path)]) == 0, capsys.readouterr().out
