"""The list of numbers that are known to be wrong: its rows, and what it says when one is damaged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from provision.catalog.known_wrong import read_known_wrong
from provision.core.errors import SpecError
from tests.smoke.faults import FAULTS

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"


def test_each_row_is_looked_for_by_a_check_that_has_a_fault() -> None:
    rows = read_known_wrong(CATALOG)
    assert len(rows) >= 9
    looked_for = {fault.check for fault in FAULTS if fault.code}
    assert {row.check for row in rows.values()} <= looked_for


def test_each_source_can_be_opened() -> None:
    for name, row in read_known_wrong(CATALOG).items():
        for source in row.sources:
            assert re.fullmatch(
                r"[\w.-]+/[\w.-]+#\d+|public code index, file \d+", source
            ), name


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    text = (CATALOG / "known-wrong.toml").read_text(encoding="utf-8")
    broken = text.replace('torch = ">=2.13,<2.14"', 'torch = "about 2.13"', 1)
    (tmp_path / "known-wrong.toml").write_text(broken, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_known_wrong(tmp_path)
    assert "masks-torch-2-13: torch" in (caught.value.evidence or "")
