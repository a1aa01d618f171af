"""Tables in narrow terminals: what is left out, what is shortened, and that nothing else is."""

from __future__ import annotations

import pytest

from provision.ui.table import Table

SUMMARY = "Intel GPUs on Linux, plain PyTorch, for drivers before 2025"
WIDE = Table(
    ("target", "platform", "built", "last checks", "what it is"),
    (
        (
            "arc-linux-older",
            "linux-64",
            "proven (27 of 27)",
            "passed 2026-01-01",
            SUMMARY,
        ),
        ("cpu", "win-64", "no", "none", "any machine"),
    ),
)
SPARE = ("platform", "last checks", "what it is")


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(200, 0), (100, 0), (90, 1), (80, 2), (40, 3)],
)
def test_spare_columns_go_in_their_order(width: int, left_out: int) -> None:
    table = WIDE.narrowed(width, SPARE)
    kept = [name for name in WIDE.columns if name not in SPARE[:left_out]]
    assert list(table.columns) == kept
    assert table.has_room(width)
    if left_out < 3:
        assert max(map(len, table.lines())) <= width
        assert table.rows[1][-1] == "any machine"
    assert (table.rows[0][-1] == SUMMARY) == (width == 200)


def test_a_column_that_is_not_spare_stays_and_is_never_shortened() -> None:
    table = WIDE.narrowed(40, ("platform",))
    assert len(table.columns) == 4
    assert table.rows[0][-1] == SUMMARY
    assert not table.has_room(40)


def test_no_column_goes_where_the_last_one_has_all_that_it_needs() -> None:
    small = Table(("target", "platform", "built"), (("cpu", "linux-64", "no"),))
    assert small.narrowed(24, ("platform",)) == small
    assert small.lines() == ["target  platform  built", "cpu     linux-64  no"]
