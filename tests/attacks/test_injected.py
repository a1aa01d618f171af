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

from tests.attacks.killed import CHANGES
from tests.attacks.scene import VERBS, Saved, current

if TYPE_CHECKING:
    from tests.attacks.scene import Ended, Scene

pytestmark = pytest.mark.machine
FILES = CHANGES | {"open", "os.listdir", "os.scandir"}
OTHERS = {"subprocess.Popen", "os.fork", "fcntl.flock", "socket.connect"}
ERRORS: dict[str, BaseException] = {
    "memory": MemoryError(),
    "recursion": RecursionError("too deep"),
    "Ctrl-C": KeyboardInterrupt(),
}
for _name in (
    "EACCES",
    "EIO",
    "ENOSPC",
    "EROFS",
    "EMFILE",
    "ENOLCK",
    "EAGAIN",
    "ELOOP",
):
    _number = getattr(errno, _name)
    ERRORS[_name] = OSError(_number, os.strerror(_number))
# An environment of which a file or the seal cannot be read is built again.
NOTHING = "build, nothing to do"
CHANGING = {"rollback", "build", "clean", "smoke", NOTHING}
HEAVY = {"build", "smoke", "bundle", "lock", "update"}
POINTS = int(
    os.environ.get("PROVISION_POINTS", "3")
)  # of each verb and error; all in `attacks`


class Injection:
    """Fails at the n-th call to the system that concerns the project; the first is 0."""

    root: str | None = None  # None: no call is counted
    at = -1
    error: BaseException | None = None
    seen = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.root is None or event not in FILES | OTHERS:
            return
        names = [os.fspath(a) for a in arguments if isinstance(a, (str, os.PathLike))]
        ours = any(str(name).startswith(self.root) for name in names)
        if event in FILES and not ours:
            return
        self.seen += 1
        if self.error is None or self.seen != self.at + 1:
            return
        if isinstance(self.error, OSError) and names:
            raise OSError(self.error.errno, self.error.strerror, names[0])
        raise self.error


_INJECTION = Injection()
sys.addaudithook(_INJECTION)


def inject(
    scene: Scene, words: list[str], at: int = -1, error: BaseException | None = None
) -> Ended:
    """Run a command with one failure."""
    _INJECTION.at, _INJECTION.error, _INJECTION.seen = at, error, 0
    _INJECTION.root = str(scene.root)
    try:
        ended = scene.call(*words, "--json")
    finally:
        _INJECTION.root = None
    what = f"{' '.join(words)} with {error!r} at call {at}"
    if isinstance(error, KeyboardInterrupt):
        assert ended.code in {0, 1, 130}, f"{what}\n{ended.said}"
        assert "Traceback" not in ended.said, what
        return ended
    ended.check(what)
    document = json.loads(ended.out)
    assert document["schema"] == 2, what
    assert document["ok"] == (ended.code == 0), what
    assert document["result"] or ended.code not in {2, 3}, what
    return ended


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
    scene: Scene, verb: str, record_property: pytest.RecordProperty
) -> None:
    words, good = scene.words(verb), VERBS[verb][1]
    tried = 0
    prepare(scene, verb)
    ready = Saved(scene.root)
    ended = inject(scene, words)
    assert ended.code == good, ended.said
    total = _INJECTION.seen
    assert total > 0 or verb == "schema"
    count = POINTS
    if verb in HEAVY:
        count = max(2, POINTS // 4)
    for name, error in ERRORS.items():
        for at in points(total, count):
            ready.restore()
            if verb == NOTHING:  # a copy is hashed once
                scene.call(*words)
            before = current(scene)
            inject(scene, words, at, error)
            tried += 1
            what = f"{verb}: {name} at {at}"
            if verb in CHANGING:
                assert scene.works(), what
            else:
                assert current(scene) == before, what
            again = inject(scene, words)
            # Wscene it failed after the rollback, tscene is nothing earlier.
            assert again.code == good or (verb, again.code) == ("rollback", 2), what
            left = [path.name for path in scene.root.rglob(".*.*")]
            litter = (".making-", ".provision.json")
            assert not any(name.startswith(litter) for name in left), f"{what}: {left}"
    record_property("seen", f"{tried} failures of {verb}")
