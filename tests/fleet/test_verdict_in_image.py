"""The verdict of an image: its programs `verdict` and `gate`, and a plugin that reads what is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest
import yaml

from provision.commands.suite import ONLY
from provision.report import verdict as verdicts
from tests.commands.detect.conftest import write

CLONE = Path(__file__).parents[2]
PROGRAMS = CLONE / "docker/bin"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform == "win32", reason="programs of a Linux image"),
]


def check(name: str, code: str) -> dict[str, object]:
    """A check of a report that failed with a code."""
    finding = {"code": code, "symptom": "it fails", "level": "error"}
    return {"id": name, "outcome": "failed", "finding": finding}


def run(
    folder: Path, code: int, report: object, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run `verdict` where `smoke` ends with a code, and has written a report or none."""
    text = json.dumps(report) if report is not None else ""
    write(folder / "report.json", text)
    copy = f"cp {folder}/report.json $TMPDIR/smoke.json" if text else ":"
    write(folder / "smoke", f"#!/bin/sh\necho $@\n{copy}\nexit {code}\n", mode=0o755)
    write(folder / "smoke.json", json.dumps({"checks": [check("old", "op-fails")]}))
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder)}
    argv = [sys.executable, "-I", PROGRAMS / "verdict", *words]
    return subprocess.run(
        argv, env=environ, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("code", "checks", "ended", "told"),
    [
        (0, [], 0, "keep none all required checks passed"),
        (1, [("a.b", "op-fails")], 1, "remove op-fails a.b: it fails"),
        (
            1,
            [("a.b", "driver-not-mounted")],
            2,
            "none driver-not-mounted a.b: it fails",
        ),
        (
            1,
            [("a.b", "device-busy"), ("c.d", "wrong-numbers")],
            1,
            "remove wrong-numbers c.d: it fails",
        ),
        (1, None, 2, "none tool the checks left no report"),
        (3, [], 2, "none tool the checks ended with 3"),
    ],
)
def test_an_image_ends_by_the_contract(
    tmp_path: Path,
    code: int,
    checks: list[tuple[str, str]] | None,
    ended: int,
    told: str,
) -> None:
    report = None
    if checks is not None:
        report = {"checks": [check(*each) for each in checks]}
    done = run(tmp_path, code, report, "--device", "all")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines) == (ended, ["--device all", told]), done.stderr


def test_toolkit_and_image_agree_on_what_says_nothing_about_a_node() -> None:
    assert run_path(str(PROGRAMS / "verdict"))["OUTSIDE"] == verdicts.OUTSIDE


def test_the_gate_of_an_image_runs_what_gate_runs_and_compares_no_speed(
    tmp_path: Path,
) -> None:
    write(tmp_path / "verdict", "#!/bin/sh\necho $@\n", mode=0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(
        [PROGRAMS / "gate", "--limit", "9"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.startswith("--device all --side-by-side --limit 9 ")
    of_speed = {"health.bandwidth", "transfer.speed"}
    asked = set(re.findall(r"--only (\S+)", told))
    assert asked == {*ONLY["gate"], "known-wrong"} - of_speed


@pytest.mark.parametrize(
    ("labels", "code", "words"),
    [
        ("verdict=keep code=none", 0, "keeps this node"),
        ("verdict=remove code=op-fails", 1, "removes this node: op-fails"),
        ("", 2, "no verdict"),
    ],
)
def test_a_plugin_of_node_problem_detector_tells_the_verdict(
    tmp_path: Path, labels: str, code: int, words: str
) -> None:
    text = (CLONE / "fleet/kubernetes/node-problem-detector.yaml").read_text("utf-8")
    data = yaml.safe_load(text)["data"]
    config = json.loads(data["provision.json"])
    (rule,) = config["rules"]
    assert rule["condition"] in {each["type"] for each in config["conditions"]}
    plugin = tmp_path / Path(rule["path"]).name
    write(plugin, data[plugin.name], mode=0o755)
    lines = [f"provision.example.org/{label}\n" for label in labels.split()]
    if lines:
        write(tmp_path / "provision", "".join(lines))
    done = subprocess.run(
        [plugin],
        env={"FEATURES": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert words in done.stdout
    assert len(done.stdout) <= config["pluginConfig"]["max_output_length"]
