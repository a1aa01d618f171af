"""A generation is finished when its record is there, and only then."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from provision.core.errors import SpecError
from provision.core.filesystem import make_tagged
from provision.core.hashing import sha256_bytes
from provision.core.project import RECORD
from provision.environment.manifest import (
    Record,
    read_generation,
    unfinished_generations,
    write_record,
)
from provision.environment.seal import (
    Seal,
    changing_seal,
    drop_seals,
    read_seal,
    restamp,
    write_seal,
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
        "local",
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


def test_two_that_change_a_seal_at_once_lose_no_change(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    make_tagged(folder)
    write_record(folder, ENTRY, Seal({}, {}))
    other = threading.Thread(target=restamp, args=(folder, "of the other"))
    with changing_seal(folder):
        other.start()
        other.join(0.3)
        assert other.is_alive(), "it waits"
        write_seal(folder, read_seal(folder), "a record")
    other.join(10)
    found = read_seal(folder)
    assert (found.stamp, found.manifests[1:]) == (
        "of the other",
        (sha256_bytes(b"a record"),),
    )
    drop_seals(tmp_path)
    assert read_seal(folder) == found
