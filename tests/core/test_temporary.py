"""Temporary folders go with their makers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.temporary import scratch

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_there_while_the_block_runs(tmp_path: Path) -> None:
    with scratch(tmp_path) as first, scratch(tmp_path) as second:
        (first / "file").touch()
        assert first != second
        assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert list(tmp_path.iterdir()) == []
