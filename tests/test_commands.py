"""Each block of commands that a reader would paste is run, in a project in miniature.

A comment before a block says otherwise: ``<!-- not run: REASON -->``, or ``<!-- ends with CODE:
REASON -->`` for one that is to fail, or may. A block with neither is run and has to succeed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from provision.catalog.snapshot import Wheel
from provision.core.hashing import sha256_file
from provision.core.platforms import this_platform
from provision.resolver import local_index
from tests.lab import new_cache, typed
from tests.recipes import GITLAB, recipes
from tests.small import PYTHON, Index, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.pages
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
OF_A_SHELL = {";", "|", "&", "&&", "||", "<", ">", ">>", "(", ")"}
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
    return [Block(*found) for found in BLOCK.findall((ROOT / page).read_text("utf-8"))]


def shown(page: str) -> list[Block]:
    """Return the blocks of a page that are run."""
    return [
        b
        for b in blocks(page)
        if b.kind == "console" and not b.note.startswith(" not run")
    ]


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
    """A project with each target that a page names, all built, and what its commands see."""

    template: Path
    root: Path  # an environment works in the place where it was built
    variables: dict[str, str]

    def anew(self, text: str) -> None:
        """Put back the project as it was, with the environments that a text names."""

        def unnamed(folder: str, names: list[str]) -> list[str]:
            ours = {path.stem for path in (ROOT / "envs").glob("*.toml")}
            built = Path(folder) == self.template / ".envs"
            return [n for n in names if built and n in ours and n not in text]

        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root, symlinks=True, ignore=unnamed)

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script up to what fails: each verb in this process, and all else in a shell."""
        for is_shell, lines in groupby(commands_of(script), needs_shell):
            for command in ["".join(lines)] if is_shell else lines:
                done = self._shell(command) if is_shell else self._verb(command)
                if done.returncode:
                    return done
        return done

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=self.root,
            env=self.variables,
            text=True,
            check=False,
            timeout=300,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _verb(self, line: str) -> subprocess.CompletedProcess[str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.root)
            for name in [n for n in os.environ if n.startswith(("PIP_", "UV_"))]:
                patch.delenv(name)
            for name, value in self.variables.items():
                patch.setenv(name, value)
            # It would ask a service; tests/commands/test_outdated.py plays that.
            patch.setitem(sys.modules, "pip_audit", None)
            words, file = parted(words_of(line))
            done = typed(*words[1:])
            if file:
                Path(file).write_text(done.stdout, encoding="utf-8")
            return done


def commands_of(script: str) -> Iterator[str]:
    """Yield the lines of a script; two verbs that ``&&`` joins are two."""
    for line in script.replace("\\\n", " ").splitlines(keepends=True):
        parts = [f"{part}\n" for part in line.split(" && ")]
        alone = len(parts) == 1 or any(map(needs_shell, parts))
        yield from [line] if alone else parts


def words_of(line: str) -> list[str]:
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.whitespace_split = True
    return list(found)


def parted(words: list[str]) -> tuple[list[str], str]:
    """Part a command from the file that gets its result, if one does."""
    return (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")


def needs_shell(line: str) -> bool:
    """Whether a line is more than the command line of a verb that ends by itself."""
    words, _ = parted(words_of(line))
    verb = words[:1] in ([".tools/bin/provision"], ["provision"])
    own = verb and words[1] != "run" and OF_A_SHELL.isdisjoint(words)
    return not own or "$" in line or "*" in line


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A contract handles signals, which is not for the process of the tests."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def write_files(root: Path) -> None:
    """Write what the pages say that a project has."""
    node = "custom_nodes/ComfyUI-Manager"
    (root / node).mkdir(parents=True)
    for name, text in {
        "train.py": "print('loss 0.1')\n",
        "main.py": "print('loss 0.1')\n",
        f"{node}/requirements.txt": "einops\n",
        "train.log": "step 1000, loss 0.1\ndone\n",
        "chat.log": "step 1000, loss 0.1\ndone\n",
        "hosts.txt": f"{socket.gethostname()}\n",
        "requirements.txt": "alpha\n",
    }.items():
        (root / name).write_text(text, encoding="utf-8")
    (root / "verdicts").symlink_to(".envs/verdicts")  # where `--contract` stores them
    for name in (".tools", "venv"):
        (root / name).symlink_to(sys.prefix)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("commands")
    root, shop = folder / "project", folder / "index"
    with serve(shop) as index:
        project = make_project(root, index)
        for path in project.specs.glob("*.toml"):
            path.unlink()
        text = "".join(block.text for page in PAGES for block in shown(page))
        names = sorted(path.stem for path in (ROOT / "envs").glob("*.toml"))
        used = [name for name in names if name in text]
        for name in used:
            spec = SPEC.format(platform=this_platform(), python=PYTHON)
            (project.specs / f"{name}.toml").write_text(spec, encoding="utf-8")
        for name in ("alpha", "einops", "ipykernel"):
            make_wheel(
                shop / "default", name, "1.0", {f"{name}/__init__.py": "version = 1\n"}
            )
        shutil.copytree(shop / "default", root / "wheels")
        write_files(root)
        wheels = [listed(index, path) for path in shop.glob("*/*")]
        with local_index.serve({"default": wheels}, "0" * 64) as urls:
            variables = {
                "PATH": f"{Path(sys.prefix, 'bin')}{os.pathsep}{os.environ['PATH']}",
                "HOME": str(folder / "home"),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_INDEX_URL": urls["default"],
                "UV_CACHE_DIR": str(new_cache(folder / "cache")),
                "UV_PYTHON_INSTALL_MIRROR": (folder / "mirror").as_uri(),
            }
            made = World(folder / "template", root, variables)
            for line in ("lock", *(f"build {name}" for name in used)):
                done = made.run(f"provision {line}\n")
                assert done.returncode == 0, done.stderr
            shutil.copytree(root, made.template, symlinks=True)
            yield made


def listed(index: Index, path: Path) -> Wheel:
    """Return a wheel of an index as a catalog lists it."""
    return Wheel(
        filename=path.name,
        url=f"{index.url}/default/{path.name}",
        sha256=sha256_file(path),
        size=path.stat().st_size,
        requires_dist=(),
    )


# Pages for one stack, whose commands other pages have as well.
OF_A_STACK = (
    "docs/how-to/arc-windows.md",
    "docs/how-to/comfyui.md",
    "docs/how-to/ipex-llm.md",
)


@pytest.mark.machine
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p in OF_A_STACK else ()) for p in PAGES],
)
def test_the_commands_of_a_page_work(page: str, world: World) -> None:
    found = shown(page)
    if found:
        world.anew("".join(block.text for block in found))
    for block in found:
        codes = set(map(int, re.findall(r"\d+", block.note.partition(":")[0]))) or {0}
        done = world.run(block.text)
        assert done.returncode in codes, f"{block.text}{done.stdout}{done.stderr}"


@pytest.mark.machine
def test_the_job_of_gitlab_works(world: World) -> None:
    (job,) = yaml.safe_load(recipes()[GITLAB]).values()
    world.anew("cpu-linux")
    done = world.run("".join(f"{line}\n" for line in job["script"]))
    assert done.returncode == 0, done.stdout + done.stderr
    report = world.root / job["artifacts"]["reports"]["junit"]
    assert "<testsuite" in report.read_text(encoding="utf-8")
    cache = job["cache"]
    assert all((world.root / file).is_file() for file in cache["key"]["files"])
    assert job["variables"]["UV_CACHE_DIR"] == f"$CI_PROJECT_DIR/{cache['paths'][0]}"


EXAMPLES = tomllib.loads(
    (ROOT / "provision/cli/examples.toml").read_text(encoding="utf-8")
)
# Examples that cannot be run here, and why; tests/cli/test_help.py parses all of them.
NOT_RUN = {
    "provision bisect arc-linux --check known-wrong.masks": "commands/test_bisect.py has releases",
    "provision bisect cuda-linux --package triton --check compile.mul_add": "as above",
    "provision bisect cuda-linux --good 2.12.1 -- python repro.py": "as above",
    "provision bisect cuda-linux --check device.matmul --plan": "as above",
    "provision bundle arc-windows -o bundle": "the index has no tools of its own",
    "provision docker cuda-linux": "needs an engine",
    "provision docker cuda-linux --print": "the index has no tools of its own",
    "provision evidence emit cpu-linux": "needs a key; tests/commands/test_evidence.py makes one",
    "provision evidence submit cpu-linux": "takes minutes; tests/commands/test_evidence.py does it",
    "provision evidence verify": "the project has no evidence",
    "provision gate cuda-linux --group": "needs a launcher; tests/smoke/test_group.py is one",
    "provision explain torch -t arc-linux": "tests/commands/test_explain.py has such packages",
    "provision init requirements/train.txt --target arc-linux": "commands/test_repository.py has one",
    "provision init --extra audio --group dev --target arc-linux": "commands/test_repository.py does",
    "provision outdated --audit": "asks a service; tests/commands/test_outdated.py plays it",
    "provision update": "asks the vendors' indexes",
    "provision update --known-wrong rows.toml": "tests/commands/test_known_wrong.py has a file",
    "provision smoke cuda-linux --health --soak 10m": "holds a load for ten minutes",
}
# What comes before the examples of a verb.
NEEDS = {
    "explain": "add cpu-linux einops --no-build",
    "fleet": "smoke cpu-linux --contract slurm",
    "remove": "add cpu-linux einops",
    "rollback": "add cpu-linux einops",
}
MAY_FIND = ("doctor", "smoke cpu-linux --against", "targets |")  # exit code 1 as well


@pytest.mark.machine
@pytest.mark.parametrize("verb", EXAMPLES)
def test_the_examples_of_a_verb_work(verb: str, world: World) -> None:
    commands = EXAMPLES[verb].keys() - NOT_RUN.keys()
    if verb == "provision":  # its overview repeats examples of verbs
        commands -= {c for v, table in EXAMPLES.items() if v != verb for c in table}
    world.anew("cpu-linux".join(EXAMPLES[verb]))
    if verb in NEEDS:
        before = world.run(f"provision {NEEDS[verb]}")
        assert before.returncode == 0, before.stderr
    for command in sorted(commands, key=list(EXAMPLES[verb]).index):
        done = world.run(command)
        may_find = command.removeprefix("provision ").startswith(MAY_FIND)
        codes = {0, 1} if may_find else {0}
        assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
