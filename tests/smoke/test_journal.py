"""The journal is read while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoke.engine.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path


def test_an_event_is_read_once_its_line_is_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.events() == []
    journal.path.write_text('{"torch": "2.1', encoding="utf-8")
    assert journal.events() == []
    with journal.path.open("a", encoding="utf-8") as stream:
        stream.write('3 ü"}\n{"count"')
    assert journal.last("torch") == "2.13 ü"
    with journal.path.open("a", encoding="utf-8") as stream:
        stream.write(": 2}\n")
    assert (journal.last("torch"), journal.last("count")) == ("2.13 ü", 2)


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(torch="2.13")
    assert len(journal.events()) == 1
    with journal.path.open("r+b") as stream:
        stream.write(b"x" * (journal.size() - 1))
    journal.write(count=1)
    assert (journal.last("torch"), journal.last("count")) == ("2.13", 1)
