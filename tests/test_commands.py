"""Each block of commands that a reader would paste is run, in a project in miniature.

A comment before a block says otherwise: ``<!-- not run: REASON -->``, or ``<!-- ends with CODE:
REASON -->`` for one that is to fail, or may. A block with neither is run and has to succeed.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from provision.catalog.snapshot import Wheel
from provision.core.hashing import sha256_file
from provision.core.platforms import this_platform
from provision.resolver import local_index
from tests.small import PYTHON, Index, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = ["README.md"] + [
    path.relative_to(ROOT).as_posix()
    for folder in ("docs", "docs/how-to")
    for path in sorted((ROOT / folder).glob("*.md"))
    if not path.name.endswith(".zh.md")  # which show the same: tests/test_docs.py
]
BLOCK = re.compile(
    r"^(?:<!--(.*?)-->\n)?( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)
NOTE = re.compile(r" (not run|ends with \d+(?: or \d+)*): (\S+(?: \S+){2,}) ")
SHELLS = {"console", "powershell"}
TYPED = re.compile(r"^(?:\S*/)?(?:provision|nox) [a-z]", re.MULTILINE)
# What is shown and not typed.
DATA = {"toml", "yaml", "json", "text"}
SPEC = """\
summary = "A target in miniature"
accelerator = "cpu"
platform = "{platform}"
python = "{python}"

[pip]
cutoff = 2026-11-01
requirements = [
    "alpha",
]
"""


class Block(NamedTuple):
    """A block of a page: what its comment says, its language and its text."""

    note: str
    indent: str
    kind: str
    text: str


def blocks(page: str) -> list[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [Block(*found) for found in BLOCK.findall(text)]


def unexplained(found: list[Block]) -> list[Block]:
    """Return the blocks that cannot be run as they are, and say no reason."""
    return [
        block
        for block in found
        if block.kind not in SHELLS | DATA
        or (block.kind in SHELLS and block.note and not NOTE.fullmatch(block.note))
        or (block.kind == "powershell" and not block.note.startswith(" not run"))
        or (block.kind in DATA and TYPED.search(block.text))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_run_or_says_why_not(page: str) -> None:
    assert unexplained(blocks(page)) == []


class World(NamedTuple):
    """A project with a target of each shipped name, and what its commands see."""

    template: Path
    variables: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("commands")
    root, shop = folder / "template", folder / "index"
    with serve(shop) as index:
        project = make_project(root, index)
        for path in project.specs.glob("*.toml"):
            path.unlink()
        for path in (ROOT / "envs").glob("*.toml"):
            spec = SPEC.format(platform=this_platform(), python=PYTHON)
            (project.specs / path.name).write_text(spec, encoding="utf-8")
        for name in ("alpha", "einops", "ipykernel"):
            make_wheel(
                shop / "default", name, "1.0", {f"{name}/__init__.py": "version = 1\n"}
            )
        shutil.copytree(shop / "default", root / "wheels")
        (root / "train.py").write_text("print('loss 0.1')\n", encoding="utf-8")
        for log in ("train.log", "chat.log"):
            (root / log).write_text("step 1000, loss 0.1\ndone\n", encoding="utf-8")
        (root / "verdicts").symlink_to(
            ".envs/verdicts"
        )  # where `--contract` stores them
        (root / "hosts.txt").write_text(f"{socket.gethostname()}\n", encoding="utf-8")
        (root / "requirements.txt").write_text("alpha\n", encoding="utf-8")
        (root / ".tools").symlink_to(sys.prefix)
        wheels = [listed(index, path) for path in shop.glob("*/*")]
        with local_index.serve({"default": wheels}, "0" * 64) as urls:
            variables = {
                "PATH": f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(folder / "home"),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_INDEX_URL": urls["default"],
                "UV_CACHE_DIR": str(folder / "cache"),
                "UV_PYTHON_INSTALL_MIRROR": (folder / "mirror").as_uri(),
            }
            made = shell("provision lock", root, variables)
            assert made.returncode == 0, made.stdout
            yield World(root, variables)


def listed(index: Index, path: Path) -> Wheel:
    """Return a wheel of an index as a catalog lists it."""
    return Wheel(
        filename=path.name,
        url=f"{index.url}/default/{path.name}",
        sha256=sha256_file(path),
        size=path.stat().st_size,
        requires_dist=(),
    )


def shell(
    script: str, root: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=root,
        env=variables,
        text=True,
        check=False,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.machine
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work(page: str, world: World, tmp_path: Path) -> None:
    typed = [
        b
        for b in blocks(page)
        if b.kind == "console" and not b.note.startswith(" not run")
    ]
    if not typed:
        return
    root = tmp_path / "project"
    shutil.copytree(world.template, root, symlinks=True)
    text = "".join(block.text for block in typed)
    used = {path.stem for path in (ROOT / "envs").glob("*.toml") if path.stem in text}
    made = shell(
        "".join(f"provision build {name}\n" for name in sorted(used)),
        root,
        world.variables,
    )
    assert made.returncode == 0, made.stdout
    for block in typed:
        codes = set(map(int, re.findall(r"\d+", block.note.partition(":")[0]))) or {0}
        done = shell(block.text, root, world.variables)
        assert done.returncode in codes, block.text + done.stdout


EXAMPLES = tomllib.loads(
    (ROOT / "provision/cli/examples.toml").read_text(encoding="utf-8")
)
# Examples that cannot be run here, and why; tests/cli/test_help.py parses all of them.
NOT_RUN = {
    "provision bundle arc-windows -o bundle": "the index has no tools of its own",
    "provision docker cuda-linux": "needs an engine",
    "provision docker cuda-linux --print": "the index has no tools of its own",
    "provision evidence emit cpu-linux": "needs a key; tests/commands/test_evidence.py makes one",
    "provision evidence verify": "the project has no evidence",
    "provision outdated --audit": "asks a service; tests/commands/test_outdated.py plays it",
    "provision update": "asks the vendors' indexes",
    "provision smoke cuda-linux --health --soak 10m": "holds a load for ten minutes",
}
MAY_FIND = ("doctor", "smoke cpu-linux --against", "targets |")  # exit code 1 as well


@pytest.mark.machine
@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_examples_of_a_verb_work(verb: str, world: World, tmp_path: Path) -> None:
    commands = EXAMPLES[verb].keys() - NOT_RUN.keys()
    root = tmp_path / "project"
    shutil.copytree(world.template, root, symlinks=True)
    (root / "venv").symlink_to(sys.prefix)
    needs = {
        "fleet": "smoke cpu-linux --contract slurm",
        "remove": "add cpu-linux einops",
        "rollback": "add cpu-linux einops",
    }
    before = f"provision build cpu-linux\nprovision {needs.get(verb, 'targets')}"
    made = shell(before, root, world.variables)
    assert made.returncode == 0, made.stdout
    for command in sorted(commands, key=list(EXAMPLES[verb]).index):
        done = shell(command, root, world.variables)
        codes = (
            {0, 1} if command.removeprefix("provision ").startswith(MAY_FIND) else {0}
        )
        assert done.returncode in codes, f"{command}\n{done.stdout}"
