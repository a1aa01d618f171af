"""The verb ``lock``: which targets it resolves, without resolving any."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from provision.cli.main import main
from provision.core.errors import ToolError
from provision.resolver.resolver import Resolver
from provision.spec.reader import target_names

if TYPE_CHECKING:
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


def test_only_stale_targets_are_resolved_unless_they_are_named(
    tmp_path: Path, resolved: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """No process starts either, which the guard of all tests holds: no tool is installed."""
    for name in ("envs", "lockfiles"):
        shutil.copytree(CLONE / name, tmp_path / name)
    before = contents(tmp_path)
    project = ["--project", str(tmp_path)]
    names = target_names(tmp_path / "envs")
    assert any(
        "[conda]" in (tmp_path / "envs" / f"{name}.toml").read_text() for name in names
    )
    assert main(["lock", "--json", *project]) == 0
    results = json.loads(capsys.readouterr().out)["result"]
    waiting = {"vllm-xpu-linux"}  # whose hash is not public
    assert [result["target"] for result in results] == [
        name for name in names if name not in waiting
    ]
    assert not any(result["differs"] or result["changes"] for result in results)
    assert contents(tmp_path) == before
    assert resolved == []

    spec = tmp_path / "envs" / "cpu-linux.toml"
    spec.write_text(
        spec.read_text().replace("requirements = [", 'requirements = ["six", ')
    )
    assert main(["lock", *project]) == 3
    assert resolved == ["cpu-linux"]
    assert main(["lock", "arc-linux", *project]) == 3
    assert resolved == ["cpu-linux", "arc-linux"]
    assert "arc-linux was resolved" in capsys.readouterr().err
