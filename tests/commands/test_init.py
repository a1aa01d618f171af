"""``init``: what becomes of real-looking repositories, and that nothing of theirs is lost."""

from __future__ import annotations

import contextlib
import json
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import main
from provision.commands.init import initialize
from provision.core.errors import ProvisionError, ToolError, UsageError
from provision.core.program import program_name
from provision.core.project import shipped
from provision.lockfile.pip import read_lock
from tests.commands.repositories import init, pip, said, trainer, write
from tests.lab import Silent
from tests.small import contents

if TYPE_CHECKING:
    from pathlib import Path


def test_each_requirement_stays_in_the_file_and_all_targets_refer_to_it(
    tmp_path: Path,
) -> None:
    repository = trainer(tmp_path)
    targets = ("cpu-linux", "arc-windows", "cuda-linux")
    init(repository, *targets)
    assert said(repository, "base/project") == {"files": ["requirements.txt"]}
    for name in targets:
        text = (repository / "envs" / f"{name}.toml").read_text(encoding="utf-8")
        assert tomllib.loads(text)["extends"] == ["base/project", name]
        for theirs in ("einops", "tqdm", "transformers", "safetensors"):
            assert theirs not in text
        # 5.* of the target admits 5.1.0, so both hold.
        found = pip(repository, name)
        both = {"transformers==5.1.0", "transformers==5.*", "accelerate"}
        assert both | {"tqdm", "einops>=0.7"} <= {*found.requirements}
        assert found.constraints == ("torch<2.9", "numpy<3")
    extra = repository / "more" / "extra.txt"
    extra.write_text("tqdm<5\n", encoding="utf-8")
    assert "tqdm<5" in pip(repository).requirements


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (
            {"requirements-a.txt": "einops\n", "requirements-b.txt": "tqdm\n"},
            "requirements-a.txt, requirements-b.txt: not used",
        ),
        (
            {"requirements/full.txt": "einops\n", "requirements/dev.txt": "tqdm\n"},
            "requirements/: dev.txt, full.txt: not used",
        ),
        (
            {"pyproject.toml": "[tool.poetry.dependencies]\ntqdm = '^4'\n"},
            "pyproject.toml [tool.poetry]: not read; `poetry export` writes requirements",
        ),
    ],
)
def test_nothing_carried_over_does_not_look_like_success(
    tmp_path: Path, files: dict[str, str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        write(tmp_path, name, text)
    words = ["init", "--project", str(tmp_path), "--target", "cpu-linux"]
    before = sorted(tmp_path.rglob("*"))
    assert main(words) == 1
    assert sorted(tmp_path.rglob("*")) == before
    shown = capsys.readouterr().out
    assert "none of the repository's requirements is in a spec" in shown
    assert "Next" not in shown
    assert f"to do by hand: {line}" in shown
    # So the command that names one finds nothing in its way.
    assert not (tmp_path / "envs").exists()
    if (name := next(iter(files))).endswith(".txt"):
        assert "`provision init requirements" in shown
        assert main([*words, name]) == 0
        assert said(tmp_path, "base/project") == {"files": [name]}


def test_what_to_do_next_works_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = "cpu-windows" if sys.platform == "win32" else "cpu-linux"
    words = ["init", "--project", str(tmp_path), "--target", here]
    assert main([*words, "--target", "mps-macos"]) == 0
    program, said = program_name(), capsys.readouterr().out
    assert said.partition("Next")[2].splitlines() == [
        ":",
        f"  {program} build {here}",
        "Next, on a machine of osx-arm64:",
        f"  {program} build mps-macos",
        "or here, for such a machine that has no network:",
        f"  {program} bundle mps-macos -o DIR",
    ]
    assert main(words) == 0, "its lock is fresh"
    said = capsys.readouterr().out
    assert said.partition("Next:")[2] == f"\n  {program} build {here}\n"
    other = tmp_path / "other"
    write(other, "requirements.txt", "einops\n")
    words = ["init", "--project", str(other), "--target", here]
    assert main([*words, "--target", "mps-macos"]) == 0
    said = capsys.readouterr().out
    assert said.partition("Next:")[2] == f"\n  {program} lock {here} mps-macos\n"


def test_what_the_shipped_target_brings_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "requirements.txt", "transformers==4.54.1\neinops\n")
    words = ["init", "--project", str(tmp_path), "--target", "cpu-linux"]
    assert main(words) == 0
    locked = len(read_lock(shipped().lock("cpu-linux")).versions)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "inherits" in line]
    assert line == (
        "cpu-linux: inherits torch, accelerate, numpy, safetensors, pytest from the shipped "
        f"target, whose lock has {locked} packages"
    )
    assert main(words) == 0
    assert "inherits" not in capsys.readouterr().out  # of a spec that stays as it is


def test_nothing_of_the_user_s_is_overwritten(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", "*.pyc\n/.envs")
    write(tmp_path, "noxfile.py", "import nox\n")
    result = init(tmp_path)
    assert (tmp_path / "noxfile.py").read_text(encoding="utf-8") == "import nox\n"
    assert any("add_sessions" in text for text in result.to_do)
    ignored = (tmp_path / ".gitignore").read_text(encoding="utf-8")
    assert ignored == "*.pyc\n/.envs\n/.tools/\n/.cache/\n"
    before = contents(tmp_path)
    again = init(tmp_path)
    assert again.written == ()
    assert again.targets[0].spec is None
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["noxfile.py", "envs/cpu-linux.toml", "envs/base/project.toml", ".gitignore"],
)
def test_attack_links_to_nowhere_make_no_file_outside(
    tmp_path: Path, name: str
) -> None:
    """A clone has links, so that init makes a file with the rights of its user."""
    root, victim = tmp_path / "clone", tmp_path / "victim"
    victim.mkdir()
    write(root, "requirements.txt", "einops\n")
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(victim / "made")
    with contextlib.suppress(ProvisionError):
        init(root, "cpu-linux")
    assert list(victim.iterdir()) == []
    assert (root / name).is_symlink()


def test_a_linked_folder_outside_the_project_is_refused(tmp_path: Path) -> None:
    root, victim = tmp_path / "clone", tmp_path / "victim"
    victim.mkdir()
    write(root, "requirements.txt", "einops\n")
    (root / "envs").symlink_to(victim)
    with pytest.raises(UsageError, match="is outside the project"):
        init(root, "cpu-linux")
    assert list(victim.iterdir()) == []


def test_a_failed_init_leaves_no_folder_of_specs(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "einops\n")
    (tmp_path / ".gitignore").mkdir()  # which cannot be written, after the specs
    with pytest.raises(ToolError, match=r"cannot write .*\.gitignore"):
        init(tmp_path, "cpu-linux")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"requirements.txt", ".gitignore"}


def test_a_failed_init_keeps_the_caches_that_were_there(tmp_path: Path) -> None:
    write(tmp_path, ".cache/mine", "")
    (tmp_path / ".gitignore").mkdir()
    with pytest.raises(ToolError):
        init(tmp_path, "cpu-linux")
    assert (tmp_path / ".cache" / "mine").exists()


def test_a_wrong_target_and_the_toolkit_s_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no target 'cpu-linx'"):
        init(tmp_path, "cpu-linx")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="toolkit's own folder"):
        initialize(shipped(), ["cpu-linux"], Silent())


def test_the_command_works_below_another_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "envs" / "catalog").mkdir(parents=True)
    inner = tmp_path / "inner"
    inner.mkdir()
    words = ["init", "--json", "--project", str(inner), "--target", "cpu-windows"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["result"]["root"] == str(inner)
    assert (inner / "envs" / "cpu-windows.toml").is_file()


def test_a_target_without_a_lock_is_begun_without_one(tmp_path: Path) -> None:
    (begun,) = init(tmp_path, "vllm-xpu-linux").targets
    assert begun.spec == "envs/vllm-xpu-linux.toml"
    assert not begun.locked
