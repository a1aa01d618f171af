"""A repository of somebody else, which `doctor`, `init` and `lock` read: bounded, and it alone."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.errors import ProvisionError
from provision.spec.reader import load_spec
from tests.attacks.test_fuzz import no_longer_than
from tests.lab import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.machine
LONGEST = 5  # seconds of the processor; the longest takes one
CONTENT = "canary:x:0"  # of a file beside the repository
TORCH = "torch==2.13.0\n"
PROJECT = "[project]\nname = 'x'\nversion = '1'\n"
QUOTED = "'p{}'\n"
SPEC = """summary = "a target"
accelerator = "cpu"
platform = "linux-64"
python = "3.11"
[pip]
cutoff = 2026-11-01
files = ["{name}"]
"""
Files = dict[str, str | Path]  # by name: a text, or where a link points


def chain(length: int, times: int) -> Files:
    """Return files that each include the next one, so many times."""
    files: Files = {f"r{at}.txt": f"-r r{at + 1}.txt\n" * times for at in range(length)}
    return files | {f"r{length}.txt": TORCH, "requirements.txt": "-r r0.txt\n"}


def doubled(header: str, entry: str) -> str:
    """Return groups or extras that each stand for the next one, twice."""
    lines = [
        f"g{n} = [{entry}, {entry}]".replace("NEXT", f"g{n + 1}").replace(
            "LEVEL", str(n)
        )
        for n in range(30)
    ]
    return "\n".join(
        [PROJECT, "dependencies = ['x[g0]']", header, *lines, "g30 = ['torch']"]
    )


# What is in a repository, the verbs that read it, and what they say.
OUTSIDE: list[tuple[Files, str]] = [
    ({"requirements.txt": f"-r ../outside.txt\n{TORCH}"}, "is outside the project"),
    ({"requirements.txt": f"{TORCH}-c ../outside.txt\n"}, ""),
    ({"requirements.txt": f"-r {'../' * 30}etc/profile\n"}, "is outside the project"),
    ({"requirements.txt": Path("../outside.txt")}, "is outside the project"),
    ({"pyproject.toml": Path("../outside.txt")}, "is outside the project"),
    ({"uv.lock": Path("../outside.txt")}, "is outside the project"),
    ({"up": Path(".."), "requirements.txt": "-r up/outside.txt\n"}, "is outside"),
    ({"environment.yml": Path("../outside.txt")}, ""),
    (
        {
            "pyproject.toml": PROJECT + "dynamic = ['dependencies']",
            "setup.py": Path("../outside.txt"),
        },
        "",
    ),
    ({"requirements.txt": TORCH, ".gitignore": Path("../outside.txt")}, ""),
    ({"requirements.txt": TORCH, "noxfile.py": Path("../outside.txt")}, ""),
]
# Made when they are tried: some are large.
HEAVY: dict[str, tuple[Callable[[], Files], str]] = {
    "a circle": (
        lambda: {"requirements.txt": "-r b.txt\n", "b.txt": "-r requirements.txt\n"},
        "itself",
    ),
    "itself": (lambda: {"requirements.txt": "-r requirements.txt\n"}, "itself"),
    "each twice": (lambda: chain(19, 2), ""),
    "each once, deep": (lambda: chain(500, 1), "include each other"),
    "many lines": (
        lambda: {"requirements.txt": "".join(f"p{n}==1\n" for n in range(8_000))},
        "",
    ),
    "a long line": (
        lambda: {"requirements.txt": f"torch=={'1' * 15_000_000}\n"},
        "characters",
    ),
    "a line that goes on": (
        lambda: {"requirements.txt": "a \\\n" * 3_000_000},
        "characters",
    ),
    "a long word": (lambda: {"requirements.txt": "9" * 150_000}, ""),
    "blanks in .gitmodules": (
        lambda: {
            "requirements.txt": "-r absent/a.txt\n",
            ".gitmodules": f"path = a{' ' * 40_000}b\n{chr(10) * 40_000}x",
        },
        "absent/a.txt",
    ),
    "many blanks": (lambda: {"requirements.txt": f"torch{' ' * 150_000}x"}, ""),
    "brackets in a text of TOML": (
        lambda: {
            "pyproject.toml": f"{PROJECT}dependencies = ['torch']\n"
            f'[tool.x]\na = """\n{"[" * 100_000}\n"""'
        },
        "",
    ),
    "a long number": (lambda: {"requirements.txt": f"torch=={'1' * 5_000}\n"}, ""),
    "a long number in a lock": (
        lambda: {
            "uv.lock": f"[[package]]\nname = 'torch'\nversion = '{'1' * 5_000}'\n"
        },
        "",
    ),
    "TOML of brackets": (lambda: {"pyproject.toml": f"a = {'[' * 100_000}"}, "deep"),
    "TOML of tables": (
        lambda: {"pyproject.toml": f"a = {'{b = ' * 50_000}"},
        "cannot be read|cannot read",
    ),
    "TOML of dots": (lambda: {"pyproject.toml": f"{'a.' * 50_000}a = 1"}, "50 parts"),
    "TOML of quoted dots": (
        lambda: {"pyproject.toml": "[" + '"a" . ' * 50_000 + "a]"},
        "50 parts",
    ),
    "many dependencies": (
        lambda: {
            "pyproject.toml": PROJECT
            + f"dependencies = [{','.join(map(QUOTED.format, range(8_000)))}]"
        },
        "",
    ),
    "many packages in a lock": (
        lambda: {
            "uv.lock": "".join(f"[[package]]\nname = 'p{n}'\n" for n in range(8_000))
        },
        "",
    ),
    "extras": (
        lambda: {
            "pyproject.toml": doubled("[project.optional-dependencies]", "'x[NEXT]'")
        },
        "",
    ),
    "extras with markers": (
        lambda: {
            "pyproject.toml": doubled(
                "[project.optional-dependencies]",
                "\"x[NEXT]; python_version > '3.LEVEL'\", 'x[NEXT]'",
            )
        },
        "more than 200 times",
    ),
    "YAML of brackets": (lambda: {"environment.yml": "[" * 100_000}, "deep"),
    "YAML of mappings": (
        lambda: {"environment.yml": "dependencies: " + "{a: " * 50_000},
        "deep",
    ),
    "YAML of references": (
        lambda: {
            "environment.yml": "a0: &a0 [x]\n"
            + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
            + "dependencies: *a29\n"
        },
        "",
    ),
    "YAML in itself": (
        lambda: {"environment.yml": "dependencies: &a [*a, {pip: *a}]\n"},
        "",
    ),
    "a long word of YAML": (
        lambda: {"environment.yml": f"dependencies: [{'a' * 15_000_000}]"},
        "",
    ),
}


def make(folder: Path, files: Files) -> Path:
    """Make a repository, with a file beside it that is none of its business."""
    root = folder / "repository"
    (root / ".git").mkdir(parents=True)
    (folder / "outside.txt").write_text(f"{CONTENT}\n", encoding="utf-8")
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            path.symlink_to(content)
        else:
            path.write_text(content, encoding="utf-8")
    return root


READ: list[str] = []
WATCHING: list[bool] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHING and event == "open" and isinstance(arguments[0], str | bytes | Path):
        READ.append(str(Path(str(arguments[0])).resolve()))


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Give the files that are opened in the block."""
    if not hasattr(watched, "hook"):
        sys.addaudithook(_note)  # which stays until the process ends
        watched.hook = True  # type: ignore[attr-defined]
    READ.clear()
    WATCHING.append(True)
    try:
        yield READ
    finally:
        WATCHING.clear()


def said_by(root: Path, verb: str) -> str:
    """Return what a verb says of a repository, whose files alone it opens, in a short time."""
    words = ("doctor", "--project", root) if verb == "doctor" else ("init", "-C", root)
    begin = time.process_time()
    with no_longer_than(60), watched() as opened:
        ended = typed(*words)
    assert time.process_time() - begin < LONGEST
    said = ended.stdout + ended.stderr
    assert "Provision itself failed" not in said
    assert "Traceback" not in said
    assert CONTENT not in said
    assert ended.returncode in {0, 1, 2}
    assert str(root.parent / "outside.txt") not in opened
    assert "/etc/profile" not in opened
    return said


@pytest.mark.parametrize("verb", ["doctor", "init"])
@pytest.mark.parametrize(("files", "says"), OUTSIDE)
def test_attack_a_repository_names_a_file_beside_it(
    tmp_path: Path, files: Files, says: str, verb: str
) -> None:
    """A clone includes, or links to, a file of the machine: it is neither opened nor quoted."""
    root = make(tmp_path, files)
    said = said_by(root, verb)
    if verb == "doctor":
        assert says in said
    assert (tmp_path / "outside.txt").read_text("utf-8") == f"{CONTENT}\n"


@pytest.mark.parametrize("verb", ["doctor", "init"])
@pytest.mark.parametrize("name", HEAVY)
def test_attack_a_repository_takes_little_time(
    tmp_path: Path, name: str, verb: str
) -> None:
    """A clone has files that are deep, long, circular or stand for more than memory holds."""
    made, says = HEAVY[name]
    files = made()
    said = said_by(make(tmp_path, files), verb)
    if (
        verb == "init" or "environment.yml" not in files
    ):  # which the doctor does not read
        assert any(word in said for word in says.split("|")), said


def test_attack_a_spec_includes_a_file_beside_its_project(tmp_path: Path) -> None:
    """A clone's spec refers to files of the machine: `lock` neither opens nor quotes them."""
    for number, files in enumerate((*OUTSIDE[:5], OUTSIDE[6])):
        root = make(tmp_path / str(number), files[0])
        name = "pyproject.toml" if "pyproject.toml" in files[0] else "requirements.txt"
        (root / "envs").mkdir()
        spec = root / "envs" / "thing.toml"
        spec.write_text(SPEC.format(name=name), encoding="utf-8")
        with watched() as opened, pytest.raises(ProvisionError) as error:
            load_spec(spec)
        assert "is outside the project" in error.value.evidence
        assert CONTENT not in error.value.evidence
        assert str(root.parent / "outside.txt") not in opened


WORKSPACE = f"""{PROJECT}dependencies = ["b"]
[tool.uv.sources]
b = {{{{ workspace = true }}}}
[tool.uv.workspace]
members = ["{{}}"]
"""
LINKS: Files = {"here": Path("."), "again": Path("."), "up": Path("..")}


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (
            "../../../**",
            "line 8: [tool.uv.workspace] members: the pattern '../../../**' le",
        ),
        ("/".join(["*/.."] * 40), "leads outside"),
        ("/etc/*", "leads outside"),
        ("/".join(["*"] * 19), "no member of a workspace"),
        ("/".join(["*"] * 50), "more than 20 parts"),
        ("/".join(["**/*"] * 10), "no member of a workspace"),
        ("up/*", "no member of a workspace"),
        ("many/*", "more than 1000 folders"),
    ],
)
def test_attack_a_workspace_has_its_members_outside(
    tmp_path: Path, pattern: str, says: str
) -> None:
    """A clone's patterns of members reach all of the machine, or have no end: it is an error."""
    files = LINKS if "many" not in pattern else {f"many/{n}/a": "" for n in range(1001)}
    files |= {"pyproject.toml": WORKSPACE.format(pattern)}
    files |= {"envs/thing.toml": SPEC.format(name="pyproject.toml")}
    root = make(tmp_path, files)
    outside = tmp_path / "beside" / "pyproject.toml"
    outside.parent.mkdir()
    outside.write_text("[project]\nname = 'b'\n", encoding="utf-8")
    begin = time.process_time()
    with (
        no_longer_than(60),
        watched() as opened,
        pytest.raises(ProvisionError) as error,
    ):
        load_spec(root / "envs" / "thing.toml")
    assert time.process_time() - begin < LONGEST
    assert says in error.value.evidence
    assert str(outside) not in opened


def test_attack_an_archive_unpacked_in_a_home_that_is_in_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home is a repository of settings: what was unpacked below it reads no file of the home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    root = make(tmp_path, {"requirements.txt": "-r ../outside.txt\n"})
    (root / ".git").rmdir()
    for verb in ("doctor", "init"):
        said_by(root, verb)


def test_an_include_of_the_same_repository_is_read(tmp_path: Path) -> None:
    below = {"sub/requirements.txt": "-r ../common.txt\n", "common.txt": TORCH}
    root = make(
        tmp_path, {**below, "sub/envs/thing.toml": SPEC.format(name="requirements.txt")}
    )
    assert "1 package" in said_by(root / "sub", "doctor")
    assert "cannot" not in said_by(root / "sub", "init")
    assert load_spec(root / "sub/envs/thing.toml").pip.requirements == (TORCH.strip(),)
