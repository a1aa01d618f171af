"""Nothing in use is removed, whichever way its program was started; and litter is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from provision.commands.generations import clean, rollback
from provision.commands.repair import repair
from provision.core.errors import UsageError
from provision.core.filesystem import make_tagged, read_link
from provision.core.in_use import hold, remove_unused
from provision.core.locking import folder_lock
from provision.core.process import environment_python, run
from provision.core.project import CURRENT, RECORD
from provision.environment.contents import read_contents
from provision.environment.manifest import write_record
from provision.environment.verify import verify
from provision.lockfile.pip import read_lock
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

    from provision.commands.generations import Cleaned
    from tests.lab import Lab

pytestmark = pytest.mark.machine
WAIT = "import time; print('started', flush=True); time.sleep(60); import beta"


@contextlib.contextmanager
def program(*argv: str | Path, **options: object) -> Iterator[subprocess.Popen[str]]:
    """Start a program, which has said a line when the block begins; it is ended after the block."""
    started = subprocess.Popen(  # type: ignore[call-overload]
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options
    )
    try:
        assert started.stdout.readline()
        yield started
    finally:
        started.kill()
        started.communicate()


Started = contextlib.AbstractContextManager[subprocess.Popen[str]]


def _run(lab: Lab, *words: str) -> Started:
    root = str(lab.project.root)
    tool = [sys.executable, "-I", "-m", "provision"]
    verb = ["run", TARGET, "--project", root, "--"]
    return program(*tool, *verb, *words, stdin=subprocess.PIPE)


def clean_all(lab: Lab) -> Cleaned:
    return clean(lab.project, TARGET, lab.listener, keep=0, everything=True)


def _by_run(lab: Lab) -> Started:
    return _run(lab, "python", "-c", WAIT)


def _shell_by_run(lab: Lab) -> Started:
    """Nothing tells of this one but its lock: sh is not of the environment."""
    script = "exec 3>/dev/null; cd /; PATH=/usr/bin; echo started; read line"
    return _run(lab, "/bin/sh", "-c", script)


def _by_the_link(lab: Lab) -> Started:
    python = environment_python(lab.home / CURRENT)
    return program(python, "-c", WAIT)


def _mapped(lab: Lab) -> Started:
    """Another Python that has a file of the environment in its memory, as a loaded library is."""
    generation = (lab.home / CURRENT).resolve()
    (module,) = generation.rglob("beta.py")
    code = f"import mmap; f = open({str(module)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); "
    return program(sys.executable, "-c", code + WAIT, cwd="/")


def _standing_in_it(lab: Lab) -> Started:
    return program(sys.executable, "-c", WAIT, cwd=(lab.home / CURRENT).resolve())


def test_attack_clean_under_a_running_program(lab: Lab) -> None:
    generation = lab.build().generation
    assert generation is not None
    name = generation.folder.name
    for start in (_by_run, _shell_by_run, _by_the_link, _mapped, _standing_in_it):
        with start(lab) as started:
            result = clean_all(lab)
            assert result.removed == ()
            ((kept, user),) = result.in_use
            assert kept == name
            if start is not _shell_by_run:
                assert f"process {started.pid})" in user
            assert read_link(lab.home / CURRENT) == generation.folder
            assert lab.says("import beta; print('whole')") == "whole"
    ((removed, _),) = clean_all(lab).removed
    assert removed == name
    assert lab.left() == []


def test_attack_repair_under_a_running_program(lab: Lab) -> None:
    drifted = lab.build().generation
    assert drifted is not None
    with _by_run(lab) as started:
        (module,) = drifted.folder.rglob("alpha.py")
        module.write_text("version = 'poisoned'\n", encoding="utf-8")
        locked = read_lock(lab.project.lock(TARGET))
        contents = read_contents(drifted.folder, TARGET)
        found = verify(contents, locked, (), deep=True)
        built = repair(found, lab.order(), run, lab.listener)
        assert built.generation is not None
        (other,) = drifted.folder.rglob("beta.py")
        assert other.is_file()
        notes = "\n".join(lab.listener.notes)
        assert f"process {started.pid})" in notes
        # Not to what is known to be damaged.
        with pytest.raises(UsageError, match="no earlier"):
            rollback(lab.project, TARGET, lab.listener)
    clean(lab.project, TARGET, lab.listener, keep=9, everything=False)
    assert not drifted.folder.exists()


def test_a_build_keeps_an_unfinished_generation_that_a_program_uses(lab: Lab) -> None:
    generation = lab.build().generation
    assert generation is not None
    with _by_the_link(lab) as started:
        record = generation.folder / RECORD
        record.unlink()  # as if it had never ended
        built = lab.build()
        assert built.generation is not None
        assert built.generation.folder != generation.folder
        assert generation.folder.is_dir()
        notes = "\n".join(lab.listener.notes)
        assert f"process {started.pid})" in notes
    newer = lab.wheel("alpha", "2.0")
    lab.relock(newer, lab.wheels[1])
    lab.build()
    assert not generation.folder.exists()


def test_a_removal_in_between_is_noticed_by_who_would_hold(lab: Lab) -> None:
    generation = lab.build().generation
    assert generation is not None
    assert hold(lab.home / "nothing") is None
    held = hold(generation.folder)
    assert held is not None
    assert "Provision started" in remove_unused(generation.folder)
    os.close(held)
    renamed = generation.folder.with_name("renamed")
    generation.folder.rename(renamed)
    assert hold(generation.folder) is None
    assert remove_unused(renamed) == ""


def test_who_waited_does_not_hold_what_replaced_the_removed_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "g"
    make_tagged(folder)

    def removed_meanwhile(*_: object) -> None:
        folder.rename(tmp_path / "old")
        make_tagged(folder)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    assert hold(folder) is None


def test_the_checks_hold_what_they_check(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from provision.commands import smoke
    from provision.commands.suite import SmokeRequest

    lab.build()
    kept: list[object] = []

    def meanwhile(*words: object, **options: object) -> object:
        kept.extend(clean_all(lab).in_use)
        return real(*words, **options)  # type: ignore[arg-type]

    real = smoke.check
    monkeypatch.setattr(smoke, "check", meanwhile)
    order = lab.order()
    request = SmokeRequest(order.project, order.target, {})
    smoke.smoke(request, run, lab.listener)
    assert len(kept) == 1
    assert clean_all(lab).in_use == ()


def test_attack_litter_of_killed_runs(ready: Lab) -> None:
    current = (ready.home / CURRENT).resolve()
    reports = ready.home / "reports"
    old = time.time() - 7200
    for file in (
        ready.home / ".provision.json.abcd1234",
        current / ".up-to-date.ab_d1234",
        reports / ".x-quick.json.abcd1234",
    ):
        file.touch()
        os.utime(file, (old, old))
    being_written = current / ".now.json.abcd1234"
    being_written.touch()
    link = ready.home / ".current-4242"
    link.symlink_to("gone")
    unfinished = ready.home / f".making-4242-{current.name}"
    unfinished.mkdir()
    before = ready.left()
    clean(ready.project, TARGET, ready.listener, keep=0, everything=False)
    assert ready.left() == sorted([current.name, CURRENT])
    assert before != ready.left()
    assert being_written.exists()
    assert not (current / ".up-to-date.ab_d1234").exists()
    (report,) = reports.iterdir()
    assert report.suffix == ".json"


def test_attack_a_clock_in_the_future_and_rollback(lab: Lab) -> None:
    first = lab.build().generation
    newer = lab.wheel("alpha", "2.0")
    lab.relock(newer, lab.wheels[1])
    lab.build()
    assert first is not None
    future = {"built": "2099-01-01T00:00:00.000"}
    late = first.record.model_copy(update=future)
    write_record(first.folder, late)
    done = rollback(lab.project, TARGET, lab.listener)
    assert done.now.folder == first.folder
    with pytest.raises(UsageError, match="no earlier"):
        rollback(lab.project, TARGET, lab.listener)


def test_the_files_are_on_the_disk_before_the_record(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from provision.commands import build, populate

    seen: list[tuple[str, bool]] = []

    def watch(place: ModuleType, name: str) -> None:
        real = getattr(place, name)

        def called(*words: Path, **options: bool) -> None:
            record = words[-1] / RECORD
            seen.append((name, record.is_file()))
            real(*words, **options)

        monkeypatch.setattr(place, name, called)

    watch(populate, "sync_folder")
    watch(build, "use")
    lab.build()
    assert seen == [("sync_folder", False), ("use", True)]


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import fcntl

    from provision.core.errors import ToolError

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(ToolError, match="cannot work in") as caught,
        folder_lock(tmp_path, lambda: None),
    ):
        pass
    assert "not supported" in caught.value.evidence
