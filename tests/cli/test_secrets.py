"""A password in the address of an index: no verb prints it, writes it or makes it an argument."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.core.errors import Exit, ToolError
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER, read_lock, sealed
from tests.condapkg import File, lock_text, make_package
from tests.small import TARGET, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.small import Index

TOOLS = Path(__file__).parents[2] / "lockfiles" / "tools"
PASSWORD, TOKEN = "hunter2-secret", "0123token4567"


class Bench:
    """A project whose index asks for a login, in a home of its own."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.folder, self.index = folder, index
        self.project = make_project(folder / "project", index, extra="[docker]\n")
        shutil.copytree(TOOLS, self.project.lock("tools"))
        alpha = make_wheel(index.root / "default", "alpha", "1.0", {"alpha.py": ""})
        beta = make_wheel(index.root / "vendor", "beta", "1.0", {"beta.py": ""})
        (folder / "tmp").mkdir()
        host = index.url.removeprefix("http://")
        self.login = f"http://me:{PASSWORD}@{host}/default/"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PIP_INDEX_URL": self.login,
            "UV_CACHE_DIR": str(folder / "cache"),
            "CHANNEL_TOKEN": TOKEN,
        }
        assert "1 added" in self.call("update")
        lock(self.project, [alpha, beta])

    def start(self, *words: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-I", "-m", "provision", *words]
        return subprocess.Popen(
            argv,
            env=self.env,
            cwd=self.project.root,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *words: str) -> str:
        out, err = self.start(*words).communicate(timeout=120)
        return out + err

    def written(self) -> Iterator[Path]:
        """Every file in the folder that holds a secret."""
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                if any(secret.encode() in data for secret in (PASSWORD, TOKEN)):
                    yield path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with serve(tmp_path / "index") as index:
        yield Bench(tmp_path, index)


VERBS = [
    ["build", TARGET],
    ["build", TARGET, "--json"],
    ["verify", TARGET, "--deep", "--repair"],
    ["smoke", TARGET],
    ["report", TARGET],
    ["run", TARGET, "--", "python", "-c", "pass"],
    ["targets"],
    ["targets", "--json"],
    ["detect"],
    ["doctor", "--target", TARGET],
    ["lock", TARGET],
    ["lock", TARGET, "--check", "--resolve"],
    ["lock", TARGET, "--engine", "pip-tools"],
    ["bundle", TARGET, "-o", "bundle"],
    ["docker", TARGET, "--print"],
    ["sbom", TARGET],
    ["update"],
    ["export", TARGET, "--format", "pylock"],
    ["export", TARGET, "--format", "requirements"],
    ["rollback", TARGET],
    ["clean", "--all"],
]


@pytest.mark.machine
@pytest.mark.parametrize("fault", [None, 403])
def test_attack_no_verb_prints_or_writes_a_password(
    bench: Bench, fault: int | None
) -> None:
    bench.index.fault = fault
    # Retries take their time: with the fault only the verbs that download.
    for words in VERBS:
        if fault and words[0] not in {"build", "bundle"}:
            continue
        cut = words.index("--") if "--" in words else len(words)
        told = bench.call(*words[:cut], "--debug", "-v", *words[cut:])
        assert PASSWORD not in told, words
    assert list(bench.written()) == []
    # The test means something only if the login was sent.
    assert any("/default/" in path for path in bench.index.asked)


@pytest.mark.machine
@pytest.mark.skipif(
    not Path("/proc").is_dir(), reason="there is no list of commands to look at"
)
@pytest.mark.parametrize(
    "words",
    [["build", TARGET], ["lock", TARGET, "--engine", "pip-tools"]],
)
def test_attack_no_process_shows_a_password_in_its_command(
    bench: Bench, words: list[str]
) -> None:
    bench.index.delay = 1.0
    seen: set[bytes] = set()
    process = bench.start(*words)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:  # it ended
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    process.communicate(timeout=120)
    ended.set()
    watcher.join()
    for command in seen:
        assert PASSWORD.encode() not in command
    tool = b"piptools" if "pip-tools" in words else b"uv\0pip\0"
    assert [command for command in seen if tool in command]


@pytest.mark.machine
def test_attack_a_lock_cannot_send_a_variable_of_the_caller(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = bench.index.root / "channel"
    archive = make_package(channel, "library", "1.0", {"lib/it.so": File(b"it")})
    text = lock_text(f"{bench.index.url}/$CHANNEL_TOKEN/channel", [archive])
    folder = bench.project.lock(TARGET)
    (folder / CONDA_LAYER).write_text(text)
    pip = (folder / PIP_LAYER).read_text()
    seal = f"# conda: {hashlib.sha256(text.encode()).hexdigest()}\n"
    (folder / PIP_LAYER).write_text(
        sealed(pip.replace("# platform:", f"{seal}# platform:"))
    )
    assert (
        "$CHANNEL_TOKEN" in conda_packages(read_lock(bench.project.lock(TARGET)))[0].url
    )
    told = bench.call("build", TARGET)
    assert "name variables that no channel has: CHANNEL_TOKEN" in told
    for path in bench.index.asked:
        assert TOKEN not in path


def test_attack_a_traceback_holds_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        try:
            Path(f"https://me:{PASSWORD}@host/x?X-Amz-Signature={TOKEN}").read_bytes()
        except OSError as error:
            raise ToolError("cannot reach it", evidence=str(error)) from error

    monkeypatch.setattr("provision.cli.verbs.targets.handle", fail)
    (tmp_path / "envs" / "catalog").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main.main(["targets", "--debug", "--json"]) == Exit.TOOL
    told = capsys.readouterr()
    assert "Traceback" in told.err
    assert "FileNotFoundError: " in told.err
    assert json.loads(told.out)["result"]["error"]["what"] == "cannot reach it"
    assert PASSWORD not in told.out + told.err
    assert TOKEN not in told.out + told.err
