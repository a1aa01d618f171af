"""Remedies: each command is run as a dry run in a miniature environment, or parsed."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import verb_names
from provision.doctor.data import data
from provision.doctor.logs import LAYERS
from tests.small import make_wheel, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = tomllib.loads(
    (Path(__file__).parent / "remedies.toml").read_text(encoding="utf-8")
)
TABLES = ("findings", "cases", "packages", "machine")
UV = [sys.executable, "-m", "uv", "pip"]
KEPT = re.compile(r"torch|triton|pytorch-triton|nvidia-(?!cudnn)")


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            remedies = key == "remedy" or name == "install"
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


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels to install from: what the remedies name, and a newer release of all that must stay."""
    folder = tmp_path_factory.mktemp("wheels")
    for line in KINDS["index"]:
        name, version, *requires = line.split(" ")
        make_wheel(folder, name.replace("-", "_"), version, {}, requires)
    info = metadata("flash-attn", "2.8.0", ["torch"]).replace("2.1", "2.2", 1)
    project = (
        '[project]\nname = "flash-attn"\nversion = "2.8.0"\ndependencies = ["torch"]\n'
    )
    with tarfile.open(folder / "flash_attn-2.8.0.tar.gz", "w:gz") as archive:
        for path, text in {"PKG-INFO": info, "pyproject.toml": project}.items():
            member = tarfile.TarInfo(f"flash_attn-2.8.0/{path}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return folder


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environments whose torch is a CUDA build, beside packages in need of a remedy.

    In one of them, "broken", cuDNN is not the one that torch requires.
    """
    folder = tmp_path_factory.mktemp("env")
    for kind, cudnn in {"broken": "9.13.0.50", "sound": "9.10.2.21"}.items():
        _environment(folder / kind, [*KINDS["installed"], f"nvidia-cudnn-cu12 {cudnn}"])
    return folder


def _environment(prefix: Path, installed: list[str]) -> None:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    (prefix / "bin" / "python").symlink_to(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for line in installed:
        name, number, *requires = line.split(" ")
        site = prefix / "lib" / version / "site-packages"
        info = site / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(metadata(name, number, requires))
        (info / "RECORD").write_text("")
        (info / "INSTALLER").write_text("uv")


def _filled(command: str) -> str:
    for placeholder, value in KINDS["placeholders"].items():
        command = command.replace(placeholder, value)
    return command


def _changed(command: str, env: Path, shelf: Path) -> dict[str, str]:
    """Return what a command would install, by name; "" for what it would remove."""
    kind = "sound" if "now.txt" in command else "broken"
    python = ["--python", str(env / kind / "bin" / "python")]
    frozen = subprocess.run(
        [*UV, "freeze", *python], capture_output=True, text=True, check=True
    )
    (shelf / "now.txt").write_text(frozen.stdout)
    words = shlex.split(_filled(command))
    assert words[:3] == ["uv", "pip", "install"], command
    call = [
        *UV,
        "install",
        "--dry-run",
        "--no-index",
        "--find-links",
        str(shelf),
        *python,
    ]
    done = subprocess.run(  # noqa: PLW1510
        [*call, *words[3:]], capture_output=True, text=True, cwd=shelf
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^ ([+~-]) ([\w.-]+)==(\S+)", done.stderr, re.MULTILINE)
    assert found or "Would make no changes" in done.stderr, done.stderr
    return {name: "" if sign == "-" else version for sign, name, version in found}


@pytest.mark.machine
@pytest.mark.parametrize("command", INSTALLS)
def test_an_installation_pins_its_version_and_moves_nothing_of_torch(
    command: str, env: Path, shelf: Path
) -> None:
    changed = _changed(command, env, shelf)
    assert changed, "the remedy changes nothing"
    assert [name for name in changed if KEPT.match(name)] == []
    assert (
        changed.get("nvidia-cudnn-cu12", "9.10.2.21") == "9.10.2.21"
    )  # which torch requires
    # What a package itself requires is a bound as well.
    assert "==" in _filled(command) or "-c now.txt" in command or "{wanted}" in command


@pytest.mark.machine
@pytest.mark.parametrize("command", KINDS["harmful"])
def test_the_dry_run_sees_harm(command: str, env: Path, shelf: Path) -> None:
    changed = _changed(command, env, shelf)
    assert [name for name in changed if KEPT.match(name)] != []


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in INSTALLS])
def test_every_other_command_is_of_a_known_kind_and_can_be_parsed(command: str) -> None:
    assert shlex.split(_filled(command))
    if command.startswith("provision "):
        assert command.split()[1] in verb_names()
        return
    assert any(re.fullmatch(kind, _filled(command)) for kind in KINDS["kinds"]), command


def test_kinds_that_no_command_has_are_removed() -> None:
    for kind in KINDS["kinds"]:
        assert any(re.fullmatch(kind, _filled(command)) for command in COMMANDS), kind
