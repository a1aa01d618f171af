"""The set-up of the tools by noxfile.py: what stops it, interferes with it, or runs beside it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkout import copy_files

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
KILLS = 12
posix = pytest.mark.skipif(os.name == "nt", reason="of POSIX")
# Each of these broke the set-up or changed its result.
HOSTILE = {
    "PIP_TARGET": "/nowhere/target",
    "PIP_PREFIX": "/nowhere/prefix",
    "PIP_USER": "1",
    "PIP_DRY_RUN": "1",
    "PIP_REQUIRE_VIRTUALENV": "1",
    "PIP_NO_BINARY": ":all:",
    "UV_EXCLUDE_NEWER": "2001-01-01",
    "UV_OVERRIDE": "/nowhere/over.txt",
    "UV_CONSTRAINT": "/nowhere/constraint.txt",
    "UV_CONFIG_FILE": "/nowhere/uv.toml",
    "UV_LINK_MODE": "symlink",
    "UV_SYSTEM_PYTHON": "1",
    "UV_TARGET": "/nowhere/target",
    "PYTHONOPTIMIZE": "2",
    "PYTHONSAFEPATH": "",
}


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The noxfile as a module, with a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PYTHON")]:
            patch.delenv(name)  # the module does so, and the test must put them back
        patch.setattr("nox.registry._REGISTRY", {})
        spec = importlib.util.spec_from_file_location("front_door", ROOT / "noxfile.py")
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        locks = tmp_path / "lockfiles"
        locks.mkdir()
        for name in ("requirements.txt", "dev.txt", "uv.txt"):
            (locks / name).write_text(f"# {name}\n")
        places = {
            "HERE": tmp_path,
            "TOOLS": tmp_path / ".tools",
            "OLD": tmp_path / ".tools-old",
            "BIN": tmp_path / ".tools" / module.BIN.name,
            "LOCKS": locks,
        }
        for name, place in places.items():
            monkeypatch.setattr(module, name, place)
        yield module


def test_each_session_of_a_developer_gets_its_tools_at_once(door: Any) -> None:  # noqa: ANN401
    from nox.registry import get

    assert set(get()) - door.OF_A_PROJECT == door.DEVELOPERS


def complete(folder: Path, door: Any, lock: Path) -> None:  # noqa: ANN401
    """Make what a finished set-up leaves."""
    (folder / door.BIN.name).mkdir(parents=True)
    (folder / door.BIN.name / f"python{door.EXE}").touch()
    (folder / door.STAMP).write_text(door.digest(lock))


def left(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.iterdir() if path.name.startswith(".tools")
    )


@pytest.mark.parametrize(
    "died", ["nowhere", "making", "between the renames", "removing"]
)
def test_attack_a_killed_set_up_heals(
    door: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    died: str,
) -> None:
    lock, seen = door.LOCKS / "requirements.txt", []

    def make_tools(made: Path, wanted: Path, held: int) -> None:
        seen.append(door.TOOLS.is_dir())
        complete(made, door, wanted)

    monkeypatch.setattr(door, "make_tools", make_tools)
    if died == "making":
        (door.HERE / ".tools-new-abc" / "seed" / "bin").mkdir(parents=True)
        door.TOOLS.mkdir()  # as earlier versions left it: with a Python and without pip
    if died in {"between the renames", "removing"}:
        complete(door.OLD, door, lock)
    if died == "removing":
        complete(door.TOOLS, door, lock)
        (door.TOOLS / door.STAMP).write_text("of another lock")
    door.ensure_tools()
    assert door.is_ready(lock)
    assert left(door.HERE) == [".tools"]
    # What was there stayed in use while the new tools were made.
    assert seen == [died != "nowhere"]


def test_attack_a_failed_set_up_loses_nothing(
    door: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    complete(door.TOOLS, door, door.LOCKS / "requirements.txt")
    before = (door.TOOLS / door.STAMP).read_text()

    def fail(made: Path, *_: object) -> None:
        from provision.core.errors import ToolError

        made.mkdir()
        raise ToolError(
            "no", evidence="https://me:hunter2@host/ is down", remedy="wait"
        )

    monkeypatch.setattr(door, "make_tools", fail)
    with pytest.raises(SystemExit) as ended:
        door.ensure_tools(dev=True)
    told = capsys.readouterr().err
    assert ended.value.code == 3
    assert "https://***@host/ is down" in told
    assert "wait" in told
    assert (door.TOOLS / door.STAMP).read_text() == before
    assert left(door.HERE) == [".tools"]


@posix
def test_attack_settings_that_would_change_the_set_up_do_not_reach_it(
    door: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://me:p%40ss@mirror/simple\ncert = /etc/ca.pem\n"
        "proxy = http://proxy:3128\nno-deps = true\n[install]\nuser = true\ntarget = /nowhere\n"
        "find-links = /one\n  /two\n"
    )
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "SSL_")):
            monkeypatch.delenv(name)
    own = {"PIP_TRUSTED_HOST": "mirror", "UV_CACHE_DIR": "/cache"}
    for name, value in {**HOSTILE, **own, "PIP_CONFIG_FILE": str(file)}.items():
        monkeypatch.setenv(name, value)
    pip, uv = door.settings()
    assert not (pip.keys() | uv.keys()) & HOSTILE.keys()
    mirror = "https://me:p%40ss@mirror/simple"
    expected = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": mirror,
        "PIP_CERT": "/etc/ca.pem",
        "PIP_PROXY": "http://proxy:3128",
        "PIP_FIND_LINKS": "/one\n/two",
        "PIP_TRUSTED_HOST": "mirror",
    }
    assert {name: pip[name] for name in pip if name.startswith("PIP_")} == expected
    assert uv["UV_DEFAULT_INDEX"] == mirror
    assert uv["UV_FIND_LINKS"] == "/one,/two"
    assert uv["UV_INSECURE_HOST"] == "mirror"
    assert uv["UV_CACHE_DIR"] == "/cache"
    assert uv["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert uv["ALL_PROXY"] == "http://proxy:3128"


@posix
@pytest.mark.machine
@pytest.mark.parametrize("way", ["script", "any interpreter"])
def test_attack_python_variables_do_not_reach_the_toolkit(
    tmp_path: Path, way: str
) -> None:
    for name in ("packaging", "rich", "pydantic", "argparse"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('foreign code')")
    hostile = {"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "error"}
    if way == "script":
        (tmp_path / "sitecustomize.py").write_text("print('foreign code ran')\n")
        # The interpreter itself does not start with this one, unless it is isolated.
        hostile["PYTHONHOME"] = "/nowhere"
        argv = [str(Path(sys.prefix) / "bin" / "provision")]
    else:  # as pip and uv write scripts, where the toolkit is installed as a tool
        line = "import sys; from provision.cli.isolated import main; sys.exit(main())"
        argv = [sys.executable, "-c", line]
    done = subprocess.run(
        [*argv, "targets", "--json"],
        env=os.environ | hostile,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of this repository, in a folder with a space in its name."""
    folder = tmp_path / "a clone"
    copy_files(folder, without=("tests/", "docs/"))
    return folder


BASE = Path(sys.base_prefix) / "bin" / "python3"


def start(
    clone: Path, *words: str, python: Path = BASE, **env: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, "noxfile.py", *words],
        cwd=clone,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    return err


@posix
@pytest.mark.faults
def test_attack_kills_during_the_set_up(clone: Path) -> None:
    began = time.monotonic()
    finish(start(clone, "-l"))
    course = time.monotonic() - began
    shutil.rmtree(clone / ".tools")
    killed = 0
    for kill in range(KILLS):
        process = start(clone, "-l")
        time.sleep(course * (kill + 0.5) / KILLS)
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        # Complete or absent; a program that the killed one had started may still be running.
        assert (
            not (clone / ".tools").exists()
            or (clone / ".tools" / "complete.stamp").is_file()
        )
        if kill % 3 == 2:
            shutil.rmtree(clone / ".tools", ignore_errors=True)
    assert killed > KILLS / 2
    finish(start(clone, "-s", "targets"))
    assert left(clone) == [".tools"]


@posix
@pytest.mark.faults
def test_a_python_without_pip_is_set_up_by_that_of_a_new_environment(
    clone: Path, tmp_path: Path
) -> None:
    subprocess.run([BASE, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = tmp_path / "bare" / "bin" / "python3"
    assert subprocess.run([bare, "-m", "pip", "--version"], check=False).returncode
    finish(start(clone, "-l", python=bare))
    assert left(clone) == [".tools"]


@posix
@pytest.mark.faults
def test_a_moved_clone_keeps_its_tools(clone: Path) -> None:
    finish(start(clone, "-l"))
    moved = clone.rename(clone.with_name("moved"))
    done = subprocess.run(
        [moved / ".tools/bin/provision", "targets"], cwd=moved, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("failing", ["pip", "uv"])
def test_without_an_index_the_remedy_names_the_folder_and_no_network(
    door: Any,  # noqa: ANN401
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
) -> None:
    from provision.core import process
    from provision.core.errors import ToolError

    def run(argv: list[Any], **_: Any) -> process.Completed:  # noqa: ANN401
        words = tuple(map(str, argv))
        code = int("install" in words and failing in Path(words[0]).name + words[3])
        # As uv says it; the word alone made the remedy one about networks.
        return process.Completed(words, code, "", "Network connectivity is off", 0)

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "../tools")
    with pytest.raises(ToolError) as caught:
        door.make_tools(door.HERE / "made", door.LOCKS / "requirements.txt", 0)
    assert "copy the files of ../tools again" in caught.value.remedy
    assert "network" not in caught.value.remedy
