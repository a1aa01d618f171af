"""The disk: whole or not at all, and only what is ours is removed."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import shutil
import signal
import stat
import time
from pathlib import Path

import pytest

from provision.core.errors import ToolError
from provision.core.filesystem import (
    is_tagged,
    make_tagged,
    read_link,
    remove_tagged,
    swap_link,
    write_atomic,
)
from provision.core.locking import folder_lock, try_lock
from provision.core.tree_hashing import sha256_below


def test_an_atomic_write_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "new" / "a", "one\n")
    write_atomic(tmp_path / "new" / "a", "two\n")
    assert (tmp_path / "new" / "a").read_bytes() == b"two\n"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a"]


def test_a_write_that_fails_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomic(tmp_path / "a", "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ToolError, match="cannot write") as caught:
        write_atomic(tmp_path / "a", "new")
    assert "No space left" in caught.value.evidence
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, flushed = tmp_path / "a", list[tuple[bool, bool]]()

    def record(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        assert is_folder or os.fstat(descriptor).st_size == len("text")
        flushed.append((is_folder, file.exists()))

    monkeypatch.setattr(os, "fsync", record)
    write_atomic(file, "text")
    assert flushed == [(False, False), (True, True)]
    swap_link(file, tmp_path / "folder")
    assert flushed[2:] == [(True, False)], (
        "the link has its name, and points to nothing"
    )


def test_only_a_tagged_folder_is_removed(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with pytest.raises(ToolError, match="will not remove"):
        remove_tagged(foreign)
    assert foreign.is_dir()


def test_what_was_killed_while_made_or_removed_can_be_removed(tmp_path: Path) -> None:
    fresh, doomed = tmp_path / ".making-1-ours", tmp_path / ".removing-1-ours"
    fresh.mkdir()
    doomed.mkdir()
    (doomed / "file").touch()
    assert not is_tagged(doomed), "what is in it may be anybody's"
    (doomed / "file").unlink()
    for folder in (fresh, doomed):
        assert is_tagged(folder)
        remove_tagged(folder)
    assert list(tmp_path.iterdir()) == []


def test_removal_takes_links_but_not_what_they_point_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    ours = tmp_path / "ours"
    make_tagged(ours)
    (ours / "link").symlink_to(precious)
    (ours / "folder").mkdir()
    remove_tagged(ours)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "precious"]


def test_the_tag_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tagged(tmp_path / "ours")
    (tmp_path / "ours" / "folder").mkdir()
    (tmp_path / "ours" / "file").touch()
    remove = shutil.rmtree

    def killed(folder: str | Path) -> None:
        if Path(folder).parent == tmp_path:
            raise OSError
        remove(folder)

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(ToolError, match="cannot remove"):
        remove_tagged(tmp_path / "ours")
    (left,) = tmp_path.iterdir()
    assert [path.name for path in left.iterdir()] == ["provision.tag"]


def test_a_link_is_swapped_in_one_step(tmp_path: Path) -> None:
    (tmp_path / f".current-{os.getpid()}").symlink_to("of a killed process of this id")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        swap_link(tmp_path / "current", tmp_path / name)
        assert read_link(tmp_path / "current") == tmp_path / name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["current", "one", "two"]


def _hold(folder: Path, ready: Path) -> None:
    with folder_lock(folder, lambda: None):
        ready.touch()
        time.sleep(60)


@pytest.mark.machine
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    holder = multiprocessing.get_context("spawn").Process(
        target=_hold, args=(tmp_path, ready)
    )
    holder.start()
    while not ready.exists():
        time.sleep(0.02)
    waited: list[bool] = []

    def kill() -> None:
        waited.append(True)
        os.kill(holder.pid or 0, signal.SIGKILL)

    with folder_lock(tmp_path, kill):
        assert waited == [True]
    holder.join()


def test_a_lock_that_was_removed_is_taken_anew(tmp_path: Path) -> None:
    """Who waits for a file that its holder removes must not share the lock with the next."""
    path = tmp_path / "folder" / ".lock"
    path.parent.mkdir()
    first = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_lock(first)

    def remove() -> None:
        path.unlink()
        path.parent.rmdir()
        os.close(first)

    with folder_lock(path.parent, remove), path.open("r+") as third:
        assert not try_lock(third.fileno())


def _hash_while_locked(folder: Path, ready: Path) -> None:
    sizes = {f"{number}.bin": 400_000_000 for number in range(8)}
    for name, size in sizes.items():
        with (folder / name).open("wb") as stream:
            stream.truncate(size)  # sparse: it takes no disk, but time to hash
    with folder_lock(folder, lambda: None):
        ready.touch()
        sha256_below(folder, sizes)


@pytest.mark.machine
def test_the_workers_of_a_killed_process_let_go_of_its_lock(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    context = multiprocessing.get_context("spawn")
    holder = context.Process(target=_hash_while_locked, args=(tmp_path, ready))
    holder.start()
    while not ready.exists():
        time.sleep(0.02)
    time.sleep(0.5)
    holder.kill()
    holder.join()
    with (tmp_path / ".lock").open("r+") as lock:
        for _ in range(
            600
        ):  # a minute: a worker that does not notice would hold it for ever
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.1)
    pytest.fail("a worker of the killed process still holds the lock")
