"""What `--help` and `help` show: at each width, with defaults, and examples that work."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from provision.cli import help as help_
from provision.cli.main import main, mark_command, parser, verb_names

EXAMPLES = tomllib.loads(
    Path(help_.__file__).with_name("examples.toml").read_text(encoding="utf-8")
)
UNSAID = (
    None,
    False,
    [],
    "",
    "==SUPPRESS==",
)  # defaults that say what leaving it out does
TARGETS = {path.stem for path in (Path(__file__).parents[2] / "envs").glob("*.toml")}


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "help") == shown(capsys, "--help")
    for verb in verb_names():
        assert shown(capsys, "help", verb) == shown(capsys, verb, "--help")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_help_fits_and_parts_no_word(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in ["", *verb_names()]:
        monkeypatch.setenv("COLUMNS", "10000")
        whole = shown(capsys, "help", *verb.split())
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = shown(capsys, "help", *verb.split())
        assert narrow.split() == whole.split()
        commands = [f"  {command}" for command in EXAMPLES[verb or "provision"]]
        wide = {line for line in narrow.splitlines() if len(line) > width} - set(
            commands
        )
        assert wide == set()
        assert set(commands) <= set(narrow.splitlines())  # whole, to be copied


@pytest.mark.parametrize("verb", ["provision", *verb_names()])
def test_the_examples_of_each_verb_are_commands(verb: str) -> None:
    for command in EXAMPLES[verb]:
        words = shlex.split(command, comments=True)
        words = words[
            1 : next((i for i, word in enumerate(words) if word in "|>"), None)
        ]
        assert verb in {"provision", words[0]}
        if words[0] == "help":
            assert words[1] in verb_names()
            continue
        marked = ["run", *mark_command(words[1:])] if words[0] == "run" else words
        found = vars(parser().parse_args(marked))
        one = found.get("target")
        named = [
            *(one if isinstance(one, list) else [one]),
            *(found.get("targets") or ()),
        ]
        assert {name for name in named if name} <= TARGETS | {"auto", "all"}
