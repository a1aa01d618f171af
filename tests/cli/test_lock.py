"""The verb ``lock``: which targets it resolves, without resolving any."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from provision.cli.main import main
from provision.cli.verbs import lock as verb
from provision.core.errors import ToolError
from provision.core.locking import try_lock
from provision.core.program import program_name
from provision.resolver.resolver import Resolver
from provision.spec.reader import target_names

if TYPE_CHECKING:
    from provision.cli.call import Call
    from provision.lockfile.pip import Artifact
    from provision.spec.model import Target

CLONE = Path(__file__).parents[2]


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that were resolved; each of them fails."""
    targets: list[str] = []

    def resolve(_: Resolver, target: Target, known: tuple[Artifact, ...]) -> NoReturn:
        targets.append(target.name)
        raise ToolError(f"{target.name} was resolved")

    monkeypatch.setattr(Resolver, "resolve", resolve)
    return targets


def contents(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """The files of a folder with the times of their last changes."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_lock_is_of_what_an_edit_at_the_same_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lock` has read the specs when `add` begins; its lock must not be of the old ones."""
    for name in ("envs", "lockfiles"):
        shutil.copytree(CLONE / name, tmp_path / name)
    spec = tmp_path / "envs" / "cpu-linux.toml"
    resolved: list[tuple[bool, bool]] = []
    make_resolver = verb.make_resolver

    def after_an_edit(call: Call, engine: str) -> Resolver:
        text = spec.read_text()
        spec.write_text(text.replace("requirements = [", 'requirements = ["six", '))
        return make_resolver(call, engine)

    def resolve(_: Resolver, target: Target, known: tuple[Artifact, ...]) -> NoReturn:
        handle = os.open(tmp_path / ".cache" / "edit.lock", os.O_RDWR)
        resolved.append(("six" in target.pip.requirements, try_lock(handle)))
        os.close(handle)
        raise ToolError("resolved")

    monkeypatch.setattr(verb, "make_resolver", after_an_edit)
    monkeypatch.setattr(Resolver, "resolve", resolve)
    assert main(["lock", "cpu-linux", "--project", str(tmp_path)]) == 3
    assert resolved == [(True, False)]


def test_only_stale_targets_are_resolved_unless_they_are_named(
    tmp_path: Path, resolved: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """No process starts either, which the guard of all tests holds: no tool is installed."""
    for name in ("envs", "lockfiles"):
        shutil.copytree(CLONE / name, tmp_path / name)
    before = contents(tmp_path)
    project = ["--project", str(tmp_path)]
    names = target_names(tmp_path / "envs")
    assert "[conda]" in (tmp_path / "envs" / "max-linux.toml").read_text()
    assert main(["lock", "--json", *project]) == 0
    results = json.loads(capsys.readouterr().out)["result"]
    names.remove("vllm-xpu-linux")  # whose hash is not public
    assert [result["target"] for result in results] == names
    for result in results:
        assert not result["differs"]
        assert not result["changes"]
    assert contents(tmp_path) == before
    assert resolved == []

    spec = tmp_path / "envs" / "cpu-linux.toml"
    text = spec.read_text()
    spec.write_text(text.replace("requirements = [", 'requirements = ["six", '))
    assert main(["lock", *project]) == 3
    assert resolved == ["cpu-linux"]
    assert main(["lock", "arc-linux", *project]) == 3
    assert resolved == ["cpu-linux", "arc-linux"]
    assert "arc-linux was resolved" in capsys.readouterr().err


def test_a_check_names_the_change_and_the_command_that_locks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("envs", "lockfiles"):
        shutil.copytree(CLONE / name, tmp_path / name)
    words = ["lock", "--check", "cpu-linux", "--project", str(tmp_path)]
    assert main(words) == 0
    assert capsys.readouterr().out == "cpu-linux: fresh\n"
    spec = tmp_path / "envs" / "cpu-linux.toml"
    text = spec.read_text()
    spec.write_text(text.replace("requirements = [", 'requirements = ["six", '))
    again = f"`{program_name()} lock cpu-linux`"
    files = "envs/cpu-linux.toml or envs/base/torch.toml"
    assert main(words) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said == f"cpu-linux: {files} changed since it was locked; {again}"
    shutil.rmtree(tmp_path / "lockfiles" / "cpu-linux")
    assert main(words) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said == f"cpu-linux: no lock for cpu-linux; {again}"
    # What a program reads is the change alone.
    assert main([*words, "--json"]) == 1
    (result,) = json.loads(capsys.readouterr().out)["result"]
    assert result["stale"] == "no lock for cpu-linux"
