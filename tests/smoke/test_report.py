"""The report: lines for people, JUnit for machines, a file that is never half written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from smoke.engine import report
from smoke.engine.finding import Finding

if TYPE_CHECKING:
    from pathlib import Path

PASSED: dict[str, Any] = {
    "id": "device.matmul",
    "title": "A product is right.",
    "stands_for": "a wrong one",
    "outcome": "passed",
    "seconds": 0.5,
    "numbers": {
        "error": {"value": 1e-7, "unit": "1"},
        "speed": {"value": 213.4, "unit": "MB/s"},
    },
    "finding": None,
}
BAD = Finding(
    "wrong-numbers", "off by <0.1>", "a driver", "another driver", ("float16",)
)
FAILED = PASSED | {
    "id": "device.gradient",
    "outcome": "failed",
    "finding": BAD.as_json(),
}


def test_a_line_has_the_numbers_with_their_units() -> None:
    assert (
        report.line(PASSED)
        == f"passed {'device.matmul':24} error 1e-07, speed 213 MB/s"
    )


def test_a_line_of_a_failure_has_the_finding() -> None:
    assert (
        report.line(FAILED)
        == f"failed {'device.gradient':24} wrong-numbers: off by <0.1>"
    )


def test_junit_counts_and_escapes() -> None:
    missing = [
        {"id": "a.owed", "owed": True, "reason": "o"},
        {"id": "a.not", "owed": False, "reason": "n"},
    ]
    checks = [PASSED, FAILED, FAILED | {"id": "device.slow", "outcome": "warned"}]
    text = report.junit({"target": "cpu-linux", "checks": checks, "not_run": missing})
    root = ET.fromstring(text.partition("\n")[2])
    found = [root.get(key) for key in ("tests", "failures", "errors", "skipped")]
    assert found == ["5", "1", "1", "1"]
    assert [each.get("message") for each in root.iter("error")] == ["o"]
    assert [each.get("message") for each in root.iter("skipped")] == ["n"]
    failure = root.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "wrong-numbers: off by <0.1>"
    assert failure.text == "a driver\nanother driver\nfloat16"


def test_a_report_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    report.write(path, "new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
