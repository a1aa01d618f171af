"""Remedies: each command can be pasted, is of a known kind, and moves nothing of torch."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.main import verb_names
from provision.doctor.data import data
from provision.doctor.logs import LAYERS
from provision.doctor.targets import in_foreign, in_own_verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = tomllib.loads(
    (Path(__file__).parent / "remedies.toml").read_text(encoding="utf-8")
)
TABLES = ("findings", "cases", "packages", "machine")


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            remedies = key in {"remedy", "built"} or name == "install"
            yield from _texts(inner, "remedy" if remedies else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name)
    elif name == "remedy":
        yield re.sub(
            r"\{(build|smoke) ([\w-]+)\}", r"`provision \1 \2-linux`", str(value)
        )


REMEDIES = sorted(
    {
        text
        for table in (*TABLES, *(f"log_rules/{layer}" for layer in LAYERS))
        for text in _texts(data(table))
    }
)
# A remedy is a sentence, with commands in backticks, or one command: a sentence has a capital.
COMMANDS = sorted(
    {
        command
        for text in REMEDIES
        for command in re.findall(r"`([^`]+)`", text)
        or ([text] if text[:1].islower() else [])
    }
)
INSTALLS = [command for command in COMMANDS if "pip install" in command]


def _filled(command: str) -> str:
    for placeholder, value in KINDS["placeholders"].items():
        command = command.replace(placeholder, value)
    return command


def test_an_installation_pins_its_version_and_moves_nothing_of_torch() -> None:
    for command in INSTALLS:
        words = shlex.split(_filled(command))
        assert words[:3] == ["uv", "pip", "install"]
        bound = "-c now.txt" in command
        # What a package itself requires is a bound as well.
        assert "==" in words[-1] or bound or "{wanted}" in command, command
        assert not re.match(r"torch|triton|pytorch-triton", words[-1])
        # Without torch among its requirements, transformers brings what it needs.
        alone = words[-1].startswith("transformers==")
        assert alone or "--no-deps" in words or bound, command


def test_every_other_command_is_of_a_known_kind_and_can_be_parsed() -> None:
    for command in set(COMMANDS) - set(INSTALLS):
        filled = _filled(command)
        words = shlex.split(filled)
        if words[0] == "provision":
            assert words[1] in verb_names()
        else:
            assert any(re.fullmatch(kind, filled) for kind in KINDS["kinds"]), command


def test_what_provision_built_gets_its_own_verbs_instead() -> None:
    for remedy in REMEDIES:
        if not re.search("uv pip (install|uninstall|check)", remedy):
            continue
        filled = remedy.replace("{wanted}", KINDS["placeholders"]["{wanted}"])
        told = in_own_verbs(filled, "cuda-linux")
        # Of a missing package the text has both ways itself; cases.toml has the remedies of builds.
        both = "-c now.txt" in remedy or "{" in filled
        assert both or not re.search("uv pip|pip install", told), told
        for command in re.findall(r"`provision ([^`]+)`", told):
            assert shlex.split(command)[0] in verb_names()


def test_somebody_elses_environment_gets_no_remedy_of_a_build() -> None:
    given = told = 0
    of_logs = [data(table) for table in ("findings", "machine")]
    of_logs += [data(f"log_rules/{layer}") for layer in LAYERS]
    for remedy in _texts(of_logs):
        fitted = in_foreign(remedy, "cuda-linux")
        given += bool(re.search(r"again from its lock|the target again", remedy))
        told += fitted != remedy
        assert not re.search(r"its lock|the target again|TARGET", fitted), fitted
        assert "`provision add " not in fitted, fitted
        # Said beside what helps elsewhere, a target's own command stays.
        of_target = re.search(r"\b(a|built) target\b", fitted)
        assert "`provision verify " not in fitted or of_target, fitted
    assert 0 < given <= told


def test_kinds_that_no_command_has_are_removed() -> None:
    for kind in KINDS["kinds"]:
        assert any(re.fullmatch(kind, _filled(command)) for command in COMMANDS), kind
