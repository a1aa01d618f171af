"""Every verb with every call to the system failing in turn: never a traceback, nothing half done.

An audit hook raises where Python is about to open, list, rename, remove, lock or start something,
so that the failure passes through the real code from the real place.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.attacks.scene import VERBS, Saved, current, open_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.attacks.scene import Scene

pytestmark = pytest.mark.machine
FILES = (
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.truncate",
)
OTHERS = ("subprocess.Popen", "os.fork", "fcntl.flock", "socket.connect")
ERRORS: dict[str, BaseException] = {
    name: OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
    for name in (
        "EACCES",
        "EIO",
        "ENOSPC",
        "EROFS",
        "EMFILE",
        "ENOLCK",
        "EAGAIN",
        "ELOOP",
    )
} | {
    "memory": MemoryError(),
    "recursion": RecursionError("too deep"),
    "Ctrl-C": KeyboardInterrupt(),
}
CHANGING = {"rollback", "build", "clean", "smoke"}
HEAVY = {"build", "smoke", "bundle", "lock", "update"}
POINTS = int(
    os.environ.get("PROVISION_POINTS", "3")
)  # of each verb and error; all in `attacks`


class Injection:
    """Fails at the n-th call to the system that concerns the project; the first is 0."""

    def __init__(self) -> None:
        self.root, self.at, self.error, self.seen = "\0", -1, None, 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.at < -1 or event not in FILES + OTHERS or self.root == "\0":
            return
        names = [os.fspath(a) for a in arguments if isinstance(a, (str, os.PathLike))]
        if event in FILES and not any(
            str(name).startswith(self.root) for name in names
        ):
            return
        self.seen += 1
        if self.error is not None and self.seen == self.at + 1:
            error = self.error
            if isinstance(error, OSError):
                error = type(error)(
                    error.errno, error.strerror, names[0] if names else None
                )
            raise error


_INJECTION = Injection()
sys.addaudithook(_INJECTION)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Saved]]:
    with open_scene(tmp_path_factory.mktemp("injected")) as made:
        yield made, Saved(made.root)


def inject(
    scene: Scene, words: list[str], at: int, error: BaseException | None
) -> tuple[int, str]:
    """Run a command with one failure; return its code, how many calls it made, and what it said."""
    _INJECTION.root, _INJECTION.at, _INJECTION.error = str(scene.root), at, error
    _INJECTION.seen = 0
    try:
        ended = scene.call(*words, "--json")
    finally:
        _INJECTION.root = "\0"
    what = f"{' '.join(words)} with {error!r} at call {at}"
    if isinstance(error, KeyboardInterrupt):
        assert ended.code in {0, 1, 130}, f"{what}\n{ended.said}"
        assert "Traceback" not in ended.said, what
    else:
        ended.check(what, json_wanted=True)
        if ended.code in {2, 3} and ended.out:
            error_part = json.loads(ended.out)["result"]
            # `targets` shows the others, and names the one whose spec cannot be read.
            assert "error" in ended.said or "unreadable" in ended.said, what
            assert error_part, what
    return ended.code, ended.said


def prepare(scene: Scene, verb: str) -> None:
    """Give a verb something to do."""
    if verb == "build":  # a generation that is not there yet
        scene.lab.relock(scene.lab.wheel("alpha", "3.0"), scene.lab.wheels[1])


def points(total: int, wanted: int) -> list[int]:
    """Return numbers spread over a range, with its ends."""
    if total <= wanted:
        return list(range(total))
    return sorted({round(n * (total - 1) / (wanted - 1)) for n in range(wanted)})


@pytest.mark.attack(
    "a call to the system fails: rights, full or failing disk, no files, locks or memory",
    promise="no traceback, right code, valid JSON; the old environment works, the next run ends",
)
@pytest.mark.parametrize("verb", VERBS)
def test_a_failing_call(
    scene: tuple[Scene, Saved], verb: str, record_property: pytest.RecordProperty
) -> None:
    here, saved = scene
    words, good = here.words(verb), VERBS[verb][1]
    wheels, tried = list(here.lab.wheels), 0
    prepare(here, verb)
    ready = Saved(here.root, "to-build") if verb == "build" else saved
    code, said = inject(here, words, -1, None)
    assert code == good, said
    total = _INJECTION.seen
    assert total > 0 or verb in {"schema"}
    ready.restore()
    for name, error in ERRORS.items():
        for at in points(total, max(2, POINTS // 4) if verb in HEAVY else POINTS):
            before = current(here)
            inject(here, words, at, error)
            tried += 1
            if verb not in CHANGING:
                assert current(here) == before, f"{name} at {at}"
            else:
                assert here.works(), f"{verb}: {name} at {at}"
            code, said = inject(here, words, -1, None)
            assert code in {good, 2} if verb == "rollback" else code == good, (
                f"{name} {at}\n{said}"
            )
            left = [
                p.name
                for p in here.root.rglob(".*.*")
                if p.name.startswith((".making-", ".provision.json"))
            ]
            assert not left, f"{verb}: {name} at {at} left {left}"
            ready.restore()
    if verb == "build":
        import shutil

        shutil.rmtree(ready.copy)
        here.lab.wheels = wheels
    saved.restore()
    record_property("seen", f"{tried} failures of {verb}")
