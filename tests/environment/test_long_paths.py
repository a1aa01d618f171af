"""What lies deeper than Windows lets programs open; on Windows itself it is tested under Wine."""

from __future__ import annotations

import pytest

from provision.core.errors import ToolError
from provision.environment.long_paths import (
    judge_path_lengths,
)
from tests.lab import Silent

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
