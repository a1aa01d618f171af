"""Reports and verdicts of schema 1 stay readable: ``schema_1.json`` has one of each, as written."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from provision.core.errors import ToolError
from provision.report.fleet import report_fleet
from provision.report.model import read_report
from provision.report.verdict import verdict_of

WRITTEN = json.loads(Path(__file__).with_name("schema_1.json").read_text("utf-8"))


def stored(folder: Path, kind: str, **changes: Any) -> Path:  # noqa: ANN401 - of JSON
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(WRITTEN[kind] | changes), encoding="utf-8")
    return path


def test_a_report_is_read_with_todays_names(tmp_path: Path) -> None:
    report = read_report(stored(tmp_path, "report"))
    assert [(e.id, e.required) for e in report.not_run] == [("device.beside", False)]
    assert len(report.reused) == 3
    assert (report.counts["required"], report.counts["reused"]) == (5, 3)
    assert report.proves
    (entry,) = WRITTEN["report"]["not_run"]
    missing = read_report(stored(tmp_path, "report", not_run=[entry | {"owed": True}]))
    assert [e.why for e in missing.missing] == [
        f"required, not evaluated: {report.not_run[0].reason}"
    ]
    assert not missing.proves


def test_a_verdict_is_read_with_todays_names(tmp_path: Path) -> None:
    path = stored(tmp_path, "verdict")
    verdict = verdict_of(path.read_bytes())
    path.rename(tmp_path / verdict.file_name)
    assert (verdict.counts["required"], verdict.counts["reused"]) == (1, 0)
    assert verdict.document()["schema"] == 2
    at = dt.datetime.fromisoformat(verdict.time)
    assert report_fleet(tmp_path, (), at).counts == {"keep": 1}
    (tmp_path / verdict.file_name).unlink()
    stored(tmp_path, "verdict", counts=[1])
    assert len(report_fleet(tmp_path, (), at).files) == 1


@pytest.mark.parametrize("changes", [{"not_run": ["x"]}, {"not_run": 1}, {"schema": 3}])
def test_a_damaged_one_is_no_report(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="no usable smoke report"):
        read_report(stored(tmp_path, "report", **changes))
