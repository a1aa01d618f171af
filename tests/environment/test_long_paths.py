"""What lies deeper than Windows lets programs open; on Windows itself it is tested under Wine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.core.errors import ToolError
from provision.environment.long_paths import (
    check_path_lengths,
    is_limited,
    judge_path_lengths,
)
from tests.lab import Silent

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 259
# As long as a path of a clone in somebody's documents.
SITE = "/" + "d" * 100 + "/Lib/site-packages"


def name(length: int, folder: str = "torch") -> str:
    """Return a file's name such that its path has that many characters."""
    return f"{folder}/{'x' * (length - len(f'{SITE}/{folder}/'))}"


def test_the_longest_path_that_windows_opens_is_fine() -> None:
    listener = Silent()
    judge_path_lengths(SITE, [name(LIMIT)], listener)
    assert listener.notes == []


def test_code_beyond_the_limit_is_an_error_that_counts_what_is_too_much() -> None:
    with pytest.raises(ToolError) as caught:
        judge_path_lengths(
            SITE, [name(LIMIT), name(LIMIT + 7), name(LIMIT + 1)], Silent()
        )
    assert caught.value.what.startswith("2 paths longer than the 259 characters")
    assert caught.value.evidence.startswith(f"266 characters: {SITE}/torch/xxx")
    assert "LongPathsEnabled" in caught.value.remedy
    assert "at least 7 characters shorter" in caught.value.remedy


def test_licences_beyond_the_limit_are_a_note() -> None:
    listener = Silent()
    judge_path_lengths(
        SITE, [name(LIMIT + 40, "torch-2.13.0.dist-info/licenses")], listener
    )
    assert len(listener.notes) == 1
    assert listener.notes[0].startswith("1 file of metadata with paths longer than 259")


def test_a_script_outside_site_packages_is_measured_where_it_lies() -> None:
    judge_path_lengths(
        SITE,
        [f"../../Scripts/{'x' * (LIMIT - len('/') - 100 - len('/Scripts/'))}"],
        Silent(),
    )
    with pytest.raises(ToolError, match="1 path longer"):
        judge_path_lengths(
            SITE, [f"../../Scripts/{'x' * (LIMIT - 100 - len('/Scripts/'))}"], Silent()
        )


def test_linux_has_no_such_limit(tmp_path: Path) -> None:
    assert not is_limited()
    (tmp_path / "Lib/site-packages").mkdir(parents=True)
    check_path_lengths(tmp_path, Silent())
