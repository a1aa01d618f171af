"""What `--help` and `help` show: at each width, with defaults, and examples that work."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from provision.cli import help as help_
from provision.cli.main import main, mark_command, parser, parsers, verb_names

EXAMPLES = tomllib.loads(
    Path(help_.__file__).with_name("examples.toml").read_text(encoding="utf-8")
)
TARGETS = {path.stem for path in (Path(__file__).parents[2] / "envs").glob("*.toml")}


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["build"]):
        assert shown(capsys, "help", *words) == shown(capsys, *words, "--help")


def test_help_fits_and_parts_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    top = parser()
    for verb, one in {"provision": top, **parsers(top)}.items():
        monkeypatch.setenv("COLUMNS", "10000")
        whole = one.format_help()
        commands = {f"  {command}" for command in EXAMPLES[verb]}
        for width in (40, 80, 200):
            monkeypatch.setenv("COLUMNS", str(width))
            narrow = one.format_help()
            assert narrow.split() == whole.split()
            lines = set(narrow.splitlines())
            assert {line for line in lines if len(line) > width} <= commands
            assert commands <= lines  # whole, to be copied


def test_the_examples_of_each_verb_are_commands() -> None:
    parse = parser().parse_args
    for verb in ["provision", *verb_names()]:
        for command in EXAMPLES[verb]:
            typed = shlex.split(command, comments=True)[1:]
            end = [at for at, word in enumerate(typed) if word in "|>"]
            words = typed[: end[0] if end else None]
            assert verb in {"provision", words[0]}
            if words[0] == "help":
                assert words[1] in verb_names()
                continue
            marked = ["run", *mark_command(words[1:])] if words[0] == "run" else words
            found = vars(parse(marked))
            one = found.get("target")
            named = [*(one if isinstance(one, list) else [one])]
            named += found.get("targets") or ()
            assert {*filter(None, named)} <= TARGETS | {"auto", "all"}
