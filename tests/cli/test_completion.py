"""Completion, in the shells themselves; one that is not on this machine is skipped by its name."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest

from provision.cli.verbs import completion
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


# As a person's settings read the script, and with a word that tells when that is done.
TERMINAL = ["setsid", "--ctty"]  # a session of its own, as fish needs one
START = {
    "bash": ([*TERMINAL, "bash", "--norc", "-i"], 'eval "$(cat {})"'),
    "zsh": (
        [*TERMINAL, "zsh", "-f", "-i"],
        'autoload -U compinit; compinit -D; eval "$(cat {})"',
    ),
    "fish": ([*TERMINAL, "fish", "--no-config", "-i"], "source {}"),
}
# A file name that a shell may take for a command, two words, an option, a pattern or a variable.
HOSTILE = [
    "$(touch CANARY)",
    "`touch CANARY`",
    "g$(touch CANARY)",
    "g`touch CANARY`",
    "g;touch CANARY",
    "g\ntouch CANARY",
    "g'$(touch CANARY)",
    'g"$(touch CANARY)',
    "g\\$(touch CANARY)",
    "g(touch CANARY)",
    "g <(touch CANARY)",
    "g\t$(touch CANARY)",
    "-o",
    "--help",
    "*",
    "g{a,b}",
    "$HOME",
    "~",
    "g\x1b]0;x\x07",
]


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
    ("provision explain tokeni", "tokenizers", "torch"),
    ("provision explain torch -t cuda12-", "cuda12-linux", "max-linux"),
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


def test_the_packages_are_those_of_both_layers_of_each_lock(tmp_path: Path) -> None:
    names = typed("completion", "packages", "--project", ROOT).stdout.split()
    assert {"torch", "vc14_runtime", "triton-xpu"} <= {*names}
    assert names == sorted(names)
    assert "nox" not in names, "the tools of this repository are in no target"
    assert typed("completion", "packages", "--project", tmp_path).stdout == ""


def after_tab(shell: str, script: Path, folder: Path, begun: str, wanted: str) -> str:
    """Return what a shell on a terminal shows after TAB, up to the text that is waited for."""
    argv, begin = START[shell]
    terminal, end = pty.openpty()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"TERM": "dumb", "HOME": str(script.parent), "PATH": path}
    child = subprocess.Popen(
        argv,
        stdin=end,
        stdout=end,
        stderr=end,
        cwd=folder,
        env=env,
    )
    os.close(end)
    try:
        os.write(terminal, f"{begin.format(script)}; echo rea''dy\n".encode())
        assert "ready\r\n" in shown_until(terminal, "ready\r\n")
        os.write(terminal, f"{begun}\t".encode())
        return shown_until(terminal, wanted)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def shown_until(terminal: int, wanted: str) -> str:
    shown, end = "", time.monotonic() + 60
    while wanted not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


@pytest.mark.parametrize("shell", START)
def test_attack_tab_runs_nothing_that_a_folder_names(
    tmp_path: Path, shell: str
) -> None:
    """A clone has specs whose names are commands: TAB runs none, and completes the good name."""
    if shutil.which(shell) is None:
        missing(shell)
    script, specs = tmp_path / f"provision.{shell}", tmp_path / "clone" / "envs"
    script.write_text(typed("completion", shell).stdout, encoding="utf-8")
    specs.mkdir(parents=True)
    for name in [*HOSTILE, "good-linux"]:
        (specs / f"{name}.toml").touch()
    shown = after_tab(shell, script, specs.parent, "provision build g", "good-linux")
    assert "good-linux" in shown
    assert not list(tmp_path.rglob("CANARY*"))


def test_attack_no_name_but_a_target_s_is_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone has specs whose names are commands or paths: they are no targets, and reported."""
    (tmp_path / "envs").mkdir()
    for name in [*HOSTILE, "..", "good-linux"]:
        (tmp_path / "envs" / f"{name}.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert typed("completion", "targets").stdout == "good-linux\n"
    for verb in ("targets", "detect", "lock"):
        said = typed(verb)
        assert "becomes the target's name" in said.stdout + said.stderr
    for verb in ("build", "lock", "verify"):
        refused = typed(verb, "$(touch CANARY)")
        assert refused.returncode == 2
        assert "use lower-case words" in refused.stderr


def test_attack_the_path_of_the_program_is_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolkit is in a folder whose name is a command: the script calls it, and runs nothing."""
    folder = tmp_path / "a b'$(touch CANARY)\"`touch CANARY`"
    folder.mkdir()
    program = folder / "provision"
    program.write_text("#!/bin/sh\necho good-linux\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(completion, "program_name", lambda: str(program))
    for shell in START:
        if shutil.which(shell) is None:
            continue
        script = tmp_path / f"provision.{shell}"
        script.write_text(typed("completion", shell).stdout, encoding="utf-8")
        shown = after_tab(shell, script, tmp_path, "provision build g", "good-linux")
        assert "good-linux" in shown, shell
    assert "''$(touch CANARY)" in typed("completion", "powershell").stdout
    assert not list(tmp_path.rglob("CANARY*"))
