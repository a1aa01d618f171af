"""What differs on Windows, with a real Windows Python, uv.exe and pip under Wine.

`.ci/wine` makes what this needs. A pass here is no proof for what Wine lacks: junctions, rights,
the checks of a virus scanner, `py.exe`.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from provision.commands.bundle import bundle
from provision.environment.manifest import read_generation
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import read_lock
from provision.spec.reader import load_target
from tests.lab import Silent, without_a_route
from tests.small import TARGET
from tests.wine.conftest import Windows, windows_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.wine


@pytest.mark.case
def test_a_fresh_clone_sets_itself_up_and_builds(windows: Windows) -> None:
    windows.relock("1.0")
    said = windows.nox("-s", f"build-{TARGET}")
    assert "tiny is ready: 2 packages" in "".join(said)
    made = read_generation(windows.current())
    assert made is not None
    assert (made.record.proof, made.record.python) == ("proven", "3.11.9")
    assert (windows.current() / "Scripts" / "python.exe").is_file()
    assert windows.says() == "1.0"
    assert "as locked" in windows.provision("verify", TARGET, "--deep")[0]


def test_the_hook_of_a_runner_lets_a_job_run_or_says_why_not(windows: Windows) -> None:
    """What job-started.ps1 starts; Wine has no PowerShell."""
    root = windows.project.root
    hook = [root / ".tools/Scripts/python.exe", "-I", "fleet/runner/job_started.py"]
    job = {"GITHUB_ACTIONS": "true", "PYTHONHOME": "C:\\nowhere"}
    fit, _ = windows.call(*hook, PROVISION_TARGET=TARGET, **job)
    assert fit.startswith("keep: tiny on ")
    suite = windows.project.smoke / "run.py"
    whole = suite.read_text(encoding="utf-8")
    try:
        suite.write_text(whole.replace('"broken"', '"sys"'), encoding="utf-8")
        unfit, _ = windows.call(*hook, PROVISION_TARGET=TARGET, code=3, **job)
    finally:
        suite.write_text(whole, encoding="utf-8")
    last = unfit.splitlines()[-1]
    assert last.startswith("::error title=provision gate::this machine is not fit: ")
    assert "tiny.check: it fails" in last
    absent = {"PROVISION": "C:\\absent.exe", "PROVISION_NO_VERDICT": "fail"}
    warned, _ = windows.call(*hook, code=3, **absent, **job)
    assert "::warning title=provision gate::no verdict" in warned


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
        words, _ = windows.provision("verify", TARGET, code=1)
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
def test_a_long_path_is_built_and_removed_where_the_limit_is_lifted(
    windows: Windows,
) -> None:
    windows.provision("build", TARGET)
    assert windows.says() == "2.1"
    assert (windows.current() / "Lib/site-packages" / LONG).is_file()
    assert "as locked" in windows.provision("verify", TARGET, "--deep")[0]
    windows.relock("1.0")
    windows.provision("build", TARGET)
    windows.provision("clean", TARGET, "--keep", "0")
    tagged = [path.parent for path in windows.environments.glob("*/provision.tag")]
    assert tagged == [windows.current()]


@pytest.mark.parametrize("page", ["cp437", "cp1251", "cp932"])
def test_no_code_page_stops_it(windows: Windows, page: str) -> None:
    shown, err = windows.provision("targets", PYTHONIOENCODING=page)
    assert (TARGET in shown, err) == (True, "")
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
            (),
            {"default": None, "vendor": f"{windows.index.url}/vendor/"},
            offline=False,
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
