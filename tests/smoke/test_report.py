"""The report: lines for people, a file that is never half written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smoke.engine import files, report
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


def test_a_report_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    files.write(path, "new")
    assert path.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
