"""A generation is finished when its record is there, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError
from provision.core.filesystem import make_tagged
from provision.core.project import RECORD
from provision.environment.manifest import (
    Record,
    read_generation,
    unfinished_generations,
    write_record,
)

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = Record(
    target="t",
    lock="1" * 64,
    spec="2" * 64,
    python="3.11.7",
    tools={"uv": "1"},
    distributions=("a-1.dist-info",),
    tree="3" * 64,
    files=1,
    size=2,
    proof="skipped",
    built="2026-01-01T00:00:00+00:00",
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    make_tagged(tmp_path / "g")
    assert read_generation(tmp_path / "g") is None
    assert unfinished_generations(tmp_path) == [tmp_path / "g"]
    written = write_record(tmp_path / "g", ENTRY)
    assert read_generation(tmp_path / "g") == written
    assert unfinished_generations(tmp_path) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}'])
def test_a_strange_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORD).write_text(text)
    with pytest.raises(SpecError, match=RECORD) as caught:
        read_generation(tmp_path)
    assert "build again" in caught.value.remedy


def test_the_contract_of_the_record() -> None:
    assert sorted(ENTRY.model_dump()) == [
        "built",
        "distributions",
        "files",
        "interpreter",
        "lock",
        "number",
        "path",
        "proof",
        "python",
        "reason",
        "schema_version",
        "size",
        "spec",
        "target",
        "tools",
        "tree",
    ]
