"""The list of numbers that are known to be wrong: its rows, and what it says when one is damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from provision.catalog.known_wrong import DriverRanges, KnownWrong, read_known_wrong
from provision.core.errors import SpecError
from provision.core.platforms import ACCELERATORS
from tests.smoke.faults import FAULTS

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "envs" / "catalog"


def test_each_row_is_looked_for_by_a_check_that_has_a_fault() -> None:
    rows = read_known_wrong(CATALOG)
    assert len(rows) >= 10
    looked_for = {fault.check for fault in FAULTS if fault.code}
    assert {row.check for row in rows.values()} <= looked_for


def test_what_is_known_to_fail_is_recorded_for_the_releases_of_its_row() -> None:
    text = (ROOT / "smoke" / "engine" / "known.json").read_text(encoding="utf-8")
    recorded = {}
    for accelerator, known in json.loads(text).items():
        for release, cases in known.get("cases_before", {}).items():
            for why in cases.values():
                (row,) = re.findall(r"row (\S+) of envs/catalog/known-wrong.toml", why)
                recorded[row] = (ACCELERATORS[accelerator].vendor, f"<{release}")
    rows = read_known_wrong(CATALOG).items()
    expected = {
        name: (row.vendor, row.torch) for name, row in rows if row.known_to_fail
    }
    assert recorded == expected


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


def test_attack_a_row_is_named_as_no_page_can_be(tmp_path: Path) -> None:
    """A name of a catalog leads out of the folder of pages: it is not valid."""
    (tmp_path / "known-wrong.toml").write_text('["../../x"]\n', encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        read_known_wrong(tmp_path)
    assert "'../../x' is no name of a row" in (caught.value.evidence or "")


def test_a_row_is_about_the_systems_that_it_or_its_drivers_name() -> None:
    texts = dict.fromkeys(("title", "symptom", "right", "check"), "x")
    row = KnownWrong(families=("bmg",), sources=("x",), **texts)  # type: ignore[arg-type]
    windows = {"driver": DriverRanges(windows=">=32")}
    for update, about in (
        ({}, ["linux", "windows"]),
        ({"systems": ("linux",)}, ["linux"]),
        ({"driver": DriverRanges(linux=">=26")}, ["linux"]),
        (windows, ["windows"]),
    ):
        changed = row.model_copy(update=update)
        assert [*filter(changed.is_about, ("linux", "windows"))] == about
    assert row.model_copy(update=windows).has_ranges
    assert not row.has_ranges
