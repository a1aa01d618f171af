"""The links, files, functions, sessions, verbs and options that the documents name exist."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import main
from provision.core.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
}
README, CONTRIBUTING = PAGES["README.md"], PAGES["CONTRIBUTING.md"]
VERB_ROWS = re.search(r"^## Verbs\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
# A part in backticks that names a file of this repository, and perhaps something in it.
NAMED = re.compile(r"`([\w./-]+\.(?:py|toml|md|sh|txt)|[\w./-]*Dockerfile)(?::(\w+(?:\.\w+)*))?`")
# Files that a command makes, that are in an environment, or that are examples.
NOT_OURS = {"conda-lock.yml", "requirements.txt", "train.py", "version.py", "torch/version.py",
            "left-out.txt", "setvars.sh", "pylock.toml", "pixi.toml"}  # fmt: skip
HOSTS = {"github.com", "developer.nvidia.com"}
# Places of any Linux system; no other absolute path belongs in a document.
SYSTEM = ("/dev/dxg", "/dev/full", "/dev/zero", "/dev/dri", "/dev/shm", "/usr/lib/wsl/lib",  # noqa: S108 - a word of a document
          "/etc/default/provision")  # fmt: skip
# Words of README -> the test that fails when they are not so, by its file and a part of its name.
PROMISES = {
    "compares every file with its hash": ("commands/test_build.py", "in_the_installer_s_cache"),
    'A second run reports "up to date"': ("commands/test_build.py", "second_build"),
    "recorded\nand shown as `unproven`": ("commands/test_build.py", "is_unproven"),
    "exits with 1 if anything got worse": ("commands/test_smoke.py", "broke_is_a_regression"),
    "`uv` resolves for any platform": ("commands/test_lock.py", "windows_is_locked"),
    "A package comes only from the index": ("commands/test_lock.py", "higher_version_elsewhere"),
    "A pip lock names no host": ("lockfile/test_committed.py", "names_no_host"),
    "takes no setting from its caller": ("commands/test_isolation.py", "pollutant"),
    "cannot change what is installed": ("commands/test_build.py", "another_hash_is_refused"),
    "only if it equals its lock and its checks pass": ("commands/test_build.py", "failed_checks"),
    "If a build is killed": ("test_faults.py", "killed_at_a_hundred_moments"),
    "one that is owed is never passed over": ("smoke/test_owed.py", "ends_early"),
    "on any platform for any target": ("commands/test_bundle.py", "by_platform"),
    "all of them are reported at once": ("spec/test_model.py", "at_once"),
    "a change cannot have touched": ("commands/test_carry.py", "only_the_checks"),
    "names the package that did it": ("environment/test_verify.py", "install_that_replaced"),
}


def code(page: str) -> Iterator[str]:
    """Yield the lines of code blocks and the parts in backticks of a page."""
    parts = re.split(r"^```.*$", page, flags=re.MULTILINE)
    for block in parts[1::2]:
        yield from block.splitlines()
    for text in parts[::2]:
        yield from re.findall(r"`([^`]+)`", text)


def found(name: str) -> Path | None:
    """Return the file that a document means: below the repository or below ``provision/``."""
    return next((p for p in (ROOT / name, ROOT / "provision" / name) if p.is_file()), None)


def defined(path: Path, name: str) -> bool:
    """Whether a module defines a function, class or method, or assigns a name."""
    scope: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        match = next((node for node in scope if part in _names(node)), None)
        if match is None:
            return False
        scope = getattr(match, "body", [])
    return True


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


@cache
def help_of(verb: str) -> str | None:
    """Return the help text of a verb; None if there is no such verb."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            main([verb, "--help"] if verb else ["--help"])
        except SystemExit as end:
            return None if end.code else out.getvalue()
    raise AssertionError("--help did not end the program")


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", PAGES[page])
    local = [link for link in links if "://" not in link]
    assert [x for x in local if not (ROOT / page).parent.joinpath(x).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_named_file_and_function_exists(page: str) -> None:
    named = [hit for hit in NAMED.findall(PAGES[page]) if hit[0] not in NOT_OURS]
    wrong = []
    for name, inside in named:
        path = found(name)
        if path is None or (inside and not defined(path, inside)):
            wrong.append(f"{name}:{inside}" if inside else name)
    assert wrong == []


def test_a_function_that_is_gone_is_noticed() -> None:
    path = ROOT / "provision" / "core" / "process.py"
    assert defined(path, "describe_exit")
    assert defined(path, "Completed.require")
    assert not defined(path, "polluted_environment")
    assert not defined(path, "Completed.forgive")
    assert found("core/no_such_module.py") is None


@pytest.mark.machine
def test_every_named_session_exists() -> None:
    command = [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "--list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sessions = set(re.findall(r"^[-*] (\S+)", listed, re.MULTILINE))
    lines = [line for page in PAGES.values() for line in code(page)]
    named = {name for line in lines for name in re.findall(r"nox(?:file\.py)? -s\s+([\w-]+)", line)}
    assert len(named) > 5
    assert named - sessions == set()


def unknown(line: str) -> list[str]:
    """Return the verbs and options of the commands in a line that do not exist."""
    wrong = []
    for verb, rest in re.findall(r"(?:^|[ /])provision ([a-z]+)\b([^|]*)", line):
        text = help_of(verb)
        if text is None:
            wrong.append(verb)
            continue
        options = re.findall(r"(?<!\S)--[a-z][\w-]*", rest.partition(" -- ")[0])
        known = set(re.findall(r"--[a-z][\w-]*", text))
        wrong += [f"{verb} {option}" for option in options if option not in known]
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_named_verb_and_option_exists(page: str) -> None:
    assert [wrong for line in code(PAGES[page]) for wrong in unknown(line)] == []


def test_a_verb_and_an_option_that_are_gone_are_noticed() -> None:
    assert unknown("provision verify T --deep # and --repair") == []
    assert unknown("provision verify T --deepest") == ["verify --deepest"]
    assert unknown(".tools/bin/provision bake T --deep") == ["bake"]
    assert unknown("provision run T -- python --version") == []


def test_the_table_of_verbs_is_complete_and_its_options_exist() -> None:
    assert VERB_ROWS is not None
    listed = []
    for cell, rest in re.findall(r"^\| (`.+?) \| (.+) \|$", VERB_ROWS[1], re.MULTILINE):
        verbs = re.findall(r"`([a-z]+)", cell)
        text = "".join(help_of(verb) or "" for verb in verbs)
        options = re.findall(r"`(--[\w-]+)", rest) + re.findall(r" (-\w+) ", cell)
        assert [option for option in options if option not in text] == [], verbs
        listed += verbs
    overview = help_of("")
    assert overview is not None
    assert sorted(listed) == sorted(re.findall(r"^    ([a-z]+)  ", overview, re.MULTILINE))


def test_readme_lists_every_exit_code() -> None:
    line = re.search(r"^Exit codes: (.*)$", README, re.MULTILINE)
    assert line is not None
    assert set(map(int, re.findall(r"\b\d+\b", line[1]))) == set(map(int, Exit))


def test_readme_lists_every_target() -> None:
    rows = re.findall(r"^\| (`.+?) \| .+ \| (?:supported|legacy) \|$", README, re.MULTILINE)
    listed = {name for cell in rows for name in re.findall(r"`([\w-]+)`", cell)}
    assert listed == {path.stem for path in (ROOT / "envs").glob("*.toml")}


def test_every_promise_of_readme_has_a_test() -> None:
    assert [words for words in PROMISES if words not in README] == []
    without = []
    for file, part in PROMISES.values():
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        if not re.search(rf"^def test_\w*{part}", text, re.MULTILINE):
            without.append((file, part))
    assert without == []


def test_contributing_answers_for_twelve_changes() -> None:
    rows = re.findall(r"^\| (?:a|an) ([\w -]+?) \| `", CONTRIBUTING, re.MULTILINE)
    assert rows == ["GPU id", "log rule", "environment rule", "smoke check", "verb",
                    "export format", "resolver", "target", "host probe", "exit code",
                    "report field", "Docker step"]  # fmt: skip


def test_architecture_has_a_line_for_every_package() -> None:
    rows = re.findall(r"^\| `([a-z]+)/` \|", PAGES["docs/architecture.md"], re.MULTILINE)
    packages = {path.parent.name for path in (ROOT / "provision").glob("*/__init__.py")}
    assert packages <= set(rows)
    assert all((ROOT / row).is_dir() or row in packages for row in rows)


@pytest.mark.parametrize(
    ("script", "product"), [("draw_rooms", "rooms.svg"), ("draw_checks", "checks.md")]
)
def test_what_is_made_from_the_code_is_current(script: str, product: str) -> None:
    spec = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made  # where NamedTuple looks up its annotations
    spec.loader.exec_module(made)
    text = (ROOT / "docs" / product).read_text(encoding="utf-8")
    assert text == made.draw(), "`nox -s docs` makes it again"


@pytest.mark.parametrize("page", PAGES)
def test_only_known_hosts_are_named(page: str) -> None:
    hosts = set(re.findall(r"https?://([\w.-]+)", PAGES[page]))
    assert hosts - HOSTS == set()


@pytest.mark.parametrize(
    "page", sorted(PAGES.keys() - {"docs/docker.md"})
)  # which names an image's
def test_no_path_of_a_machine_is_named(page: str) -> None:
    paths = re.findall(r"(?<![\w.>~\]}/:*)-])(/[a-z]\w+(?:/[\w.-]*)*)", PAGES[page])
    assert [path for path in paths if not path.startswith(SYSTEM)] == []
