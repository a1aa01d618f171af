"""What `--help` and `help` show: at each width, with defaults, and examples that work."""

from __future__ import annotations

import re
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
            typed = re.split(" [|>] ", command)[0]
            _, own, *words = shlex.split(typed, comments=True)
            assert verb in {"provision", own}
            if own == "help":
                assert words[0] in verb_names()
                continue
            if own == "run":
                words = mark_command(words)
            found = vars(parse([own, *words]))
            for name in ("target", "targets"):
                named = found.get(name) or []
                if isinstance(named, str):
                    named = [named]
                assert {*named} <= TARGETS | {"auto", "all"}
