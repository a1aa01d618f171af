"""The readiness contract: what keeps a node, removes it, or says nothing about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from provision.cli import main
from provision.core.process import clean_environment, environment_python
from provision.report.history import history
from provision.report.verdict import Verdict
from provision.ui import verdict as forms
from tests.small import FAILING_SUITE, SUITE, TARGET

if TYPE_CHECKING:
    from tests.lab import Lab

pytestmark = pytest.mark.machine
SCHEMA = Path(__file__).parents[2] / "fleet" / "verdict.schema.json"
KEEP, REMOVE, NONE = 0, 1, 2
# A check that never ends, in a process of a process, as the suite's workers are.
# Of two devices of three: their checks began, and do not end.
HANGS = """
import json, subprocess, sys
journal = open(sys.argv[sys.argv.index("--journal") + 1], "w")
for key, name in ("start", ""), ("result", ""), ("start", "@2"), ("start", "@3"):
    print(json.dumps({key: {"id": f"device.ready{name}"}}), file=journal, flush=True)
subprocess.run([sys.executable, "-c", "import time; time.sleep(600)", "left-by-a-test"])
"""


def test_the_published_schema_of_a_verdict_is_that_of_the_verb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(["schema", "verdict"]) == 0
    assert capsys.readouterr().out == SCHEMA.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _handlers() -> Any:  # noqa: ANN401 - a generator
    """The contract handles signals, which is not for the process of the tests."""
    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


def call(lab: Lab, *words: str, verb: str = "smoke", engine: str = "slurm") -> int:
    common = ["--project", str(lab.project.root), "--node", "n1", "--contract", engine]
    return main.main([verb, TARGET, *common, *words])


def start(lab: Lab, *words: str) -> subprocess.Popen[str]:
    argv = [
        sys.executable,
        "-m",
        "provision",
        "smoke",
        TARGET,
        "--project",
        str(lab.project.root),
        "--node",
        "n1",
        "--contract",
        "slurm",
        *words,
    ]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def stored(lab: Lab, suite: str = "quick") -> dict[str, Any]:
    path = lab.project.root / ".envs" / "verdicts" / f"n1.{TARGET}.{suite}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return found


def suite_of(lab: Lab, text: str) -> None:
    (lab.project.smoke / "run.py").write_text(text, encoding="utf-8")


def test_a_good_node_is_kept(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    built = lab.build().generation
    assert built is not None
    capsys.readouterr()
    assert call(lab) == KEEP
    assert capsys.readouterr().out == "provision: keep tiny quick: 1 of 1 checks\n"
    found = stored(lab)
    assert found["verdict"] == "keep"
    assert found["code"] == ""
    assert found["lock"] == built.record.lock
    assert found["numbers"]["tiny.check"]["error"]["value"] == 1e-7


def test_a_failed_check_removes_with_its_code(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of(ready, FAILING_SUITE)
    capsys.readouterr()
    assert call(ready) == REMOVE
    assert capsys.readouterr().out == (
        "provision: remove op-fails tiny quick: tiny.check: it fails\n"
    )
    assert stored(ready)["failed"] == [
        {
            "check": "tiny.check",
            "code": "op-fails",
            "symptom": "it fails",
            "remedy": "r",
        }
    ]


def test_a_regression_removes_and_a_check_that_is_gone_does_not(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    number = '"error": {"value": 1e-7, "unit": "1"}'
    suite_of(ready, SUITE.replace(number, '"memory": {"value": 80, "unit": "GiB"}'))
    assert call(ready) == KEEP
    suite_of(ready, SUITE.replace(number, '"memory": {"value": 40, "unit": "GiB"}'))
    capsys.readouterr()
    assert call(ready) == REMOVE
    assert capsys.readouterr().out.startswith(
        "provision: remove less-memory tiny quick: "
    )
    assert [fault["code"] for fault in stored(ready)["regressions"]] == ["less-memory"]
    suite_of(ready, SUITE.replace("tiny.check", "tiny.other"))
    assert call(ready) == KEEP
    assert [fault["code"] for fault in stored(ready)["regressions"]] == [
        "check-vanished"
    ]


def test_a_slower_node_is_kept_unless_that_was_asked_to_count(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provision.commands.check.PAUSE", 0.0)
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('"cpu"', '"cuda"', 1))
    lab.relock(*lab.wheels)
    number = '"error": {"value": 1e-7, "unit": "1"}'
    rate = '"rate": {"value": %d, "unit": "images/s"}'
    suite_of(lab, SUITE.replace(number, rate % 100))
    lab.build()
    (path,) = history(lab.project, TARGET)
    for day in range(1, 8):
        earlier = path.with_name(f"2025010{day}{path.name[8:]}")
        earlier.write_text(path.read_text())
    suite_of(lab, SUITE.replace(number, rate % 40))
    for words, verdict in ([], KEEP), (["--fail-if-slower"], REMOVE):
        assert call(lab, *words) == verdict
        assert [fault["code"] for fault in stored(lab)["regressions"]] == ["slowed"]


def test_a_failure_of_the_network_removes_nobody(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of(ready, FAILING_SUITE.replace('"op-fails"', '"network-failure"'))
    capsys.readouterr()
    assert call(ready, engine="prometheus") == NONE
    assert "network-failure" in capsys.readouterr().out


def test_a_suite_that_breaks_says_nothing_about_the_node(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of(ready, "raise SystemExit(3)")
    capsys.readouterr()
    assert call(ready) == NONE
    assert capsys.readouterr().out.startswith(
        "provision: none tool tiny quick: the smoke suite"
    )


def test_what_is_not_built_or_named_wrongly_is_no_verdict(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(lab) == NONE
    assert capsys.readouterr().out.startswith(
        "provision: none usage tiny quick: tiny is not built"
    )
    assert call(lab, "--soak", "9s") == NONE
    assert call(lab, "--node", "../../n1") == NONE
    assert call(lab, "--repair", verb="verify") == NONE
    assert call(lab, "--no-such-option") == NONE
    assert (
        main.main(["smoke", TARGET, "--project", str(lab.project.root), "--idle"])
        == NONE
    )
    assert "without --contract" in capsys.readouterr().err


def test_verify_removes_a_node_whose_files_differ(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready, verb="verify") == KEEP
    (changed,) = (ready.home / "current").resolve().rglob("alpha.py")
    changed.write_text("version = 'another one'\n", encoding="utf-8")
    capsys.readouterr()
    assert call(ready, verb="verify") == REMOVE
    found = stored(ready, "verify")
    assert found["code"] == "changed-file"
    assert found["verdict"] == "remove"
    assert capsys.readouterr().out.startswith(
        "provision: remove changed-file tiny verify: "
    )


def test_a_run_that_was_left_out_keeps_the_last_verdict(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(ready) == KEEP
    suite_of(ready, "raise SystemExit(3)")  # it must not run
    capsys.readouterr()
    first = stored(ready)
    assert call(ready, "--if-driver-changed") == KEEP
    kept = stored(ready)
    assert first["unchanged_since"] is None
    assert kept["unchanged_since"] <= first["time"]
    told = f"1 of 1 checks, nothing changed since {kept['unchanged_since']}\n"
    assert capsys.readouterr().out.endswith(told)


def test_a_folder_that_cannot_be_written_changes_no_verdict(
    ready: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert call(ready, "--verdicts", str(tmp_path / "file" / "below")) == KEEP
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["slurm", "kubernetes", "prometheus", "text"])
def test_attack_a_verdict_is_named_as_another_file(
    ready: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """`-o` names a key or a document: it stays, and an earlier verdict is replaced."""
    file = tmp_path / "out"
    file.touch()  # as a container's termination log is

    def give() -> int:
        common = ["--project", str(ready.project.root), "-o", str(file)]
        verb = ["gate"] if engine == "text" else ["verify", "--contract", engine]
        return main.main([*verb, TARGET, *common])

    code, written = give(), file.read_text(encoding="utf-8")
    assert code in {KEEP, REMOVE}
    assert written
    assert give() == code
    file.write_text(f"# what {written}", encoding="utf-8")
    capsys.readouterr()
    assert give() == NONE
    assert "was not made by this command" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == f"# what {written}"


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows ends a process without a signal"
)
@pytest.mark.parametrize(
    "how", [pytest.param("time-limit", marks=pytest.mark.slow), "interrupted"]
)
def test_a_run_that_is_ended_leaves_nothing_behind(
    ready: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    suite_of(ready, HANGS)
    room = tmp_path / "temporary"
    room.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    child = start(ready, *(["--time-limit", "4s"] if how == "time-limit" else []))
    if how == "interrupted":
        while "left-by-a-test" not in _processes():
            time.sleep(0.1)
        child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == NONE
    assert out.split()[:3] == ["provision:", "none", how]
    found = stored(ready)
    assert found["code"] == how
    words = f"the run was ended: {how}, during device.ready@2, device.ready@3"
    assert found["reason"] == words
    assert ("--time-limit" in found["remedy"]) == (how == "time-limit")
    assert "left-by-a-test" not in _processes()
    assert list(room.iterdir()) == []


def test_a_driver_that_never_returns_ends_as_no_verdict(
    ready: Lab, tmp_path: Path
) -> None:
    suite_of(ready, FAILING_SUITE)
    assert call(ready) == REMOVE
    removal = stored(ready)
    done = hang(ready, "-o", str(tmp_path / "line"))
    assert done.returncode == NONE
    assert done.stdout == ""
    line = (tmp_path / "line").read_text(encoding="utf-8")
    assert line.startswith("provision: none time-limit tiny quick: ")
    assert stored(ready) == removal, "nothing was learnt about a node that is not fit"
    (ready.project.root / ".envs" / "verdicts" / f"n1.{TARGET}.quick.json").unlink()
    done = hang(ready)
    assert done.returncode == NONE
    assert done.stdout.startswith("provision: none time-limit tiny quick: ")
    found = stored(ready)
    assert found["verdict"] == "none"
    assert found["code"] == "time-limit"
    assert found["since"] == found["time"]


@pytest.mark.slow
def test_where_its_line_cannot_be_written_either_that_is_said(
    ready: Lab, tmp_path: Path
) -> None:
    (tmp_path / "line").touch()
    done = hang(ready, "-o", str(tmp_path / "line" / "below"))
    assert done.returncode == NONE
    assert done.stdout == ""
    assert "cannot write" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_disk_that_hangs_as_the_driver_does_ends_as_no_verdict(ready: Lab) -> None:
    done = hang(ready, before="contract.read_verdict = contract.facts_of\n")
    assert done.returncode == NONE
    assert done.stdout.startswith("provision: none time-limit tiny quick: ")


def hang(lab: Lab, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the checks with a main thread that no signal ends."""
    root = str(lab.project.root)
    argv = ["smoke", TARGET, "--project", root, "--node", "n1", "--contract", "slurm"]
    argv += ["--time-limit", "3s", *words]
    code = (
        "import sys, threading, signal\n"
        "from provision.cli import contract, main\n"
        "contract._UNTIL_ENDED = 0.5\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])\n"
        "contract.facts_of = lambda *_: threading.Event().wait()\n"
        f"{before}main.main({argv})\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _processes() -> str:
    found = [path / "cmdline" for path in Path("/proc").glob("[0-9]*")]
    return "\n".join(_text(path) for path in found)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


@pytest.mark.skipif(
    sys.platform == "win32", reason="it does not tell who uses a folder"
)
def test_a_busy_environment_is_no_verdict_until_its_user_leaves(
    ready: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment_python(ready.home / "current")
    user = subprocess.Popen(
        [python, "-c", "input()"], stdin=subprocess.PIPE, env=clean_environment()
    )
    try:
        monkeypatch.setattr("provision.cli.contract._UNTIL_IDLE", 0.5)
        time.sleep(0.3)
        assert call(ready, "--idle") == NONE
        assert f"(process {user.pid})" in stored(ready)["reason"]
        assert stored(ready)["code"] == "busy"
    finally:
        user.communicate(b"\n", timeout=30)
    assert call(ready, "--idle") == KEEP


def verdict(**parts: object) -> Verdict:
    known = {
        "schema": 2,
        "node": "n1",
        "target": "cuda-linux",
        "suite": "quick",
        "verdict": "remove",
        "code": "op-fails",
        "time": "2026-11-22T07:00:00Z",
        "seconds": 8.0,
    }
    return Verdict.model_validate(known | parts)


NASTY = verdict(
    reason='it "fails"\n`rm -rf` $HOME \x1b[31m\u0440',
    stack={
        f"GPU 0000:{number:02x}:00.0": "NVIDIA H100 80GB HBM3" for number in range(64)
    },
    failed=[
        {
            "check": f"area.check{n}",
            "code": "op-fails",
            "symptom": 's"\n' * 90,
            "remedy": "r" * 90,
        }
        for n in range(64)
    ],
    counts={"required": 3, "passed": 2},
    numbers={
        "a.b": {
            "x, {y}": {"value": 1.5, "unit": "GB/s"},
            "t": {"value": 2, "unit": "parts/s"},
            'quo"te\\': {"value": 1e-9, "unit": "1"},
        }
    },
)


def test_a_drain_reason_is_one_plain_line() -> None:
    line = forms.slurm(NASTY)
    assert line.isascii()
    assert len(line) <= 201
    assert line.count("\n") == 1
    assert not set("\"'`$\\\x1b") & set(line)
    assert line.startswith(
        "provision: remove op-fails cuda-linux quick: it fails rm -rf HOME"
    )


def test_a_termination_message_fits() -> None:
    text = forms.kubernetes(NASTY)
    assert len(text.encode()) <= 4096
    found = json.loads(text)
    assert found["failed"]
    assert found["verdict"] == "remove"
    assert found["code"] == "op-fails"
    small = json.loads(forms.kubernetes(verdict()))
    jsonschema.validate(small, Verdict.model_json_schema())


NONE_FOR_LONG = verdict(verdict="none", since="2026-11-20T07:00:00Z")


@pytest.mark.parametrize(
    "made", [NASTY, verdict(), NONE_FOR_LONG], ids=["full", "empty", "none"]
)
def test_promtool_accepts_the_text(made: Verdict) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        reason = "promtool is not installed (Debian: prometheus)"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        return
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=forms.prometheus(made),
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr == ""
    since = 'no_verdict_since_timestamp_seconds{target="cuda-linux",suite="quick"} 1795158000'
    assert (since in forms.prometheus(made)) == (made is NONE_FOR_LONG)
