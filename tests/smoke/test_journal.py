"""The journal is read while it is written, and after a writer that was killed."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

from smoke.engine.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 500
LARGE = "x" * 40_000


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
        stream.write(b"x" * (journal.path.stat().st_size - 1))
    journal.write(count=1)
    assert (journal.last("torch"), journal.last("count")) == ("2.13", 1)


def test_a_line_that_a_killed_writer_left_does_not_swallow_the_next(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.write(torch="2.13")
    with journal.path.open("ab") as stream:
        stream.write(b'{"at": 1.0, "step": "half of \xc3')
    journal.write(count=1)
    assert (journal.last("torch"), journal.last("count")) == ("2.13", 1)
    assert len(journal.events()) == 2


def write_in_parts(path: Path) -> None:
    """Append events of 40 KB as a slow disk takes them: each in several writes."""
    with path.open("ab", buffering=0) as stream:
        for number in range(EVENTS):
            line = b'{"count": %d, "step": "%s"}\n' % (number, LARGE.encode())
            for start in range(0, len(line), 8192):
                stream.write(line[start : start + 8192])


def test_a_reader_beside_a_writer_of_large_events_sees_each_once(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path / "journal")
    writer = multiprocessing.get_context("spawn").Process(
        target=write_in_parts, args=(journal.path,)
    )
    writer.start()
    read, looks = 0, 0
    while writer.is_alive():
        # As `events()`, without keeping gigabytes.
        read += len(journal.events())
        journal._read.clear()
        looks += 1
    writer.join()
    journal._read.clear()
    read += len(journal.events())
    assert writer.exitcode == 0
    assert read == EVENTS
    assert looks > 10
