"""Completion, in the shells themselves; one that is not on this machine is skipped by its name."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from tests.lab import typed

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[2]
# Each line prints what a shell proposes for a command that is typed so far.
BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shtab_provision provision "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $argv[1]; complete -C (string join -- " " $argv[2..])'
POWERSHELL = """
Invoke-Expression (Get-Content -Raw $args[0])
$line = $args[1..($args.Count - 1)] -join ' '
(TabExpansion2 $line $line.Length).CompletionMatches | ForEach-Object CompletionText
"""
SHELLS = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "fish": ["fish", "--no-config", "-c", FISH, "--"],
    "powershell": ["pwsh", "-NoProfile", "-CommandWithArgs", POWERSHELL],
}


def missing(program: str) -> NoReturn:
    """Skip a test, or fail in CI, which has all shells that Debian has."""
    reason = f"there is no {program} here"
    debian = os.environ.get("CI") and program != "pwsh"
    pytest.fail(reason) if debian else pytest.skip(reason)


def proposals(shell: str, script: Path, *typed: str) -> str:
    """Return what a shell proposes for the last word, in the folder of this project."""
    env = {**os.environ, "HOME": str(script.parent), "TERM": "dumb"}
    return subprocess.run(
        [*SHELLS[shell], str(script), *typed],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=env,
        check=False,
        timeout=120,
    ).stdout


TYPED = [
    ("provision sm", "smoke", "build"),
    ("provision lock cpu-linux cuda12", "cuda12-linux", "max-linux"),
    ("provision build cpu-linux --off", "--offline", "--no-smoke"),
    ("provision export cpu-linux --format pyl", "pylock", "requirements"),
    ("provision build cpu-linux --wheelhouse doc", "docs", "envs"),
]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes(tmp_path: Path, shell: str) -> None:
    if shutil.which(SHELLS[shell][0]) is None:
        missing(SHELLS[shell][0])
    script = tmp_path / f"provision.{shell}"
    script.write_text(typed("completion", shell).stdout, encoding="utf-8")
    for begun, wanted, other in TYPED:
        lines = proposals(shell, script, *begun.split()).splitlines()
        # fish adds descriptions
        found = [line.partition("\t")[0].rstrip("/ ") for line in lines]
        assert wanted in found, begun
        assert other not in found, begun


def test_the_names_are_those_of_the_project_in_which_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def targets(folder: Path) -> list[str]:
        monkeypatch.chdir(folder)
        return typed("completion", "targets").stdout.split()

    ours = sorted(path.stem for path in (ROOT / "envs").glob("*.toml"))
    assert targets(ROOT) == ours
    assert targets(tmp_path) == []
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "mine.toml").write_text("no = ", encoding="utf-8")
    (tmp_path / "below").mkdir()
    assert targets(tmp_path / "below") == ["mine"]
