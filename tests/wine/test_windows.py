"""What differs on Windows, with a real Windows Python, uv.exe and pip under Wine.

`.ci/wine` makes what this needs. A pass here is no proof for what Wine lacks: junctions, rights,
the checks of a virus scanner, `py.exe`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING

import pytest

from provision.commands.bundle import bundle
from provision.environment.manifest import read_generation
from provision.installer.install import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.lab import Silent, without_a_route
from tests.small import TARGET, Index, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.project import Project

pytestmark = pytest.mark.wine
CLONE = Path(__file__).parents[2]
# Not all of these letters are in the code page of any one Windows.
FOLDER = "Büro и 数"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def windows_path(path: Path) -> str:
    return str(PureWindowsPath("Z:", path))


@dataclasses.dataclass
class Windows:
    """A clone on a pretended Windows machine, with a target in miniature and its index."""

    home: Path
    project: Project
    index: Index

    @property
    def environments(self) -> Path:
        return self.project.environments(TARGET)

    def environment(self, **extra: str) -> dict[str, str]:
        certificates = windows_path(CERTIFICATES)
        return {
            "HOME": os.environ["HOME"],
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "WINEPREFIX": str(self.home / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "ucrtbase=n,b",
            "SSL_CERT_FILE": certificates,
            "PIP_CERT": certificates,
            **extra,
        }

    def start(self, *words: str | Path, **extra: str) -> subprocess.Popen[bytes]:
        """Start a Windows program in the clone; it writes to pipes, files would not do."""
        return subprocess.Popen(
            ["wine", *words],  # noqa: S607
            cwd=self.project.root,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def call(self, *words: str | Path, code: int = 0, **extra: str) -> tuple[str, str]:
        """Run a Windows program to its end; return what it printed."""
        with self.start(*words, **extra) as process:
            out, err = process.communicate(timeout=600)
        assert process.returncode == code, err.decode(errors="replace")
        return out.decode(errors="replace"), err.decode(errors="replace")

    def nox(self, *words: str, code: int = 0, **extra: str) -> tuple[str, str]:
        """Call the front door, with whatever tools it finds or makes."""
        return self.call(self.home / "python/python.exe", "noxfile.py", *words, code=code, **extra)

    def provision(self, *words: str, code: int = 0, **extra: str) -> tuple[str, str]:
        """Call the command of the tools, by the index of this lab."""
        command = self.project.root / ".tools/Scripts/provision.exe"
        index = f"{self.index.url}/default/"
        return self.call(command, *words, code=code, PIP_INDEX_URL=index, **extra)

    def relock(self, version: str, *more: str) -> None:
        """Lock alpha in a version, with some more files in it, and beta."""
        files = {"alpha.py": f"version = {version!r}\n", **dict.fromkeys(more, "")}
        alpha = make_wheel(self.index.root / "vendor", "alpha", version, files)
        beta = make_wheel(self.index.root / "vendor", "beta", "1.0", {"beta.py": ""})
        lock(self.project, [alpha, beta])

    def current(self) -> Path:
        return self.environments / (self.environments / ".current").read_text().strip()

    def says(self) -> str:
        code = "import alpha; print(alpha.version)"
        return self.provision("run", TARGET, "--", "python", "-c", code)[0].strip()


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Windows]:
    home = Path(os.environ.get("PROVISION_WINE", "")).absolute()
    if not (home / "python" / "complete").is_file():
        pytest.fail("there is no Windows Python here; .ci/wine makes one and runs these tests")
    folder = tmp_path_factory.mktemp("wine")
    with serve(folder / "index") as index:
        yield Windows(home, _clone(folder / FOLDER, index), index)


def _clone(root: Path, index: Index) -> Project:
    """Copy what git would clone, with the target in miniature added."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=CLONE, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLONE / name, root / name)
    project = make_project(root, index, platform="win-64")
    wished = project.specs / f"{TARGET}.toml"
    wished.write_text(wished.read_text().replace('["beta"]', '["alpha", "beta"]'))
    return project


def test_a_fresh_clone_sets_itself_up_and_builds(windows: Windows) -> None:
    windows.relock("1.0")
    said = windows.nox("-s", f"build-{TARGET}")
    assert "tiny is ready: 2 packages" in "".join(said)
    made = read_generation(windows.current())
    assert made is not None
    assert (made.record.proof, made.record.python) == ("proven", "3.11.9")
    assert (windows.current() / "Scripts" / "python.exe").is_file()
    assert windows.says() == "1.0"
    assert "as locked" in windows.provision("verify", TARGET, "--deep")[1]


def test_it_swaps_while_a_python_of_the_old_environment_runs(windows: Windows) -> None:
    old = windows.current()
    code = "import alpha, time; print(alpha.version, flush=True); time.sleep(600)"
    running = windows.start(old / "Scripts" / "python.exe", "-c", code)
    try:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == b"1.0"
        windows.relock("2.0")
        windows.provision("build", TARGET)
        assert windows.current() != old
        assert windows.says() == "2.0"
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()


def test_it_goes_back_and_removes(windows: Windows) -> None:
    windows.provision("rollback", TARGET)
    assert windows.says() == "1.0"
    windows.provision("clean", TARGET, "--keep", "0")
    tagged = [path.parent for path in windows.environments.glob("*/provision.json")]
    assert tagged == [windows.current()]


def test_a_changed_file_is_found_and_named(windows: Windows) -> None:
    module = windows.current() / "Lib" / "site-packages" / "alpha.py"
    whole = module.read_bytes()
    module.write_bytes(whole + b"#")
    try:
        _, words = windows.provision("verify", TARGET, code=1)
    finally:
        module.write_bytes(whole)
    assert "alpha.py" in words


@pytest.fixture
def long_paths(windows: Windows) -> Iterator[None]:
    """Lift Windows' limit on the length of paths, as an administrator would."""
    key = r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem"
    value = ["/v", "LongPathsEnabled"]
    windows.call("reg", "add", key, *value, "/t", "REG_DWORD", "/d", "1", "/f")
    yield
    windows.call("reg", "delete", key, *value, "/f")


LONG = f"alpha_parts/{'d' * 200}/part.py"


def test_a_path_too_long_for_windows_is_refused(windows: Windows) -> None:
    before = windows.current()
    windows.relock("2.1", LONG)
    _, words = windows.provision("build", TARGET, code=3)
    assert "1 path longer than the 259 characters" in words
    assert "LongPathsEnabled" in words
    assert windows.current() == before
    tagged = [path.parent for path in windows.environments.glob("*/provision.tag")]
    assert tagged == [before]


@pytest.mark.usefixtures("long_paths")
def test_a_long_path_is_built_and_removed_where_the_limit_is_lifted(windows: Windows) -> None:
    windows.provision("build", TARGET)
    assert windows.says() == "2.1"
    assert (windows.current() / "Lib/site-packages" / LONG).is_file()
    assert "as locked" in windows.provision("verify", TARGET, "--deep")[1]
    windows.relock("1.0")
    windows.provision("build", TARGET)
    windows.provision("clean", TARGET, "--keep", "0")
    tagged = [path.parent for path in windows.environments.glob("*/provision.tag")]
    assert tagged == [windows.current()]


@pytest.mark.parametrize("page", ["cp437", "cp1251", "cp932"])
def test_no_code_page_stops_it(windows: Windows, page: str) -> None:
    out, shown = windows.provision("targets", PYTHONIOENCODING=page)
    assert (TARGET in shown, out) == (True, "")
    out, _ = windows.provision("targets", "--json", PYTHONIOENCODING=page)
    names = {row["name"] for row in json.loads(out)["result"]["rows"]}
    assert {TARGET, "arc-windows"} <= names


def test_a_bundle_made_here_builds_there_without_a_network(
    windows: Windows, tmp_path: Path
) -> None:
    alone = without_a_route()
    windows.relock("3.0")
    out = tmp_path / "air gap"
    made = bundle(
        windows.project,
        load_target(windows.project.specs, TARGET),
        read_lock(windows.project.lock(TARGET)),
        supply=ArtifactSources(
            (), {"default": None, "vendor": f"{windows.index.url}/vendor/"}, offline=False
        ),
        folder=out,
        progress=Silent(),
    )
    assert made.missing == ()
    python = windows_path(windows.home / "python" / "python.exe")
    done = subprocess.run(
        [*alone, "wine", "cmd", "/c", "build.cmd"],
        cwd=out,
        env=windows.environment(PYTHON=python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    (built,) = out.glob(f"toolkit/.envs/{TARGET}/*/provision.json")
    assert json.loads(built.read_text())["proof"] == "proven"
