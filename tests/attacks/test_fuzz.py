"""Thousands of damaged files through the verbs that read them: no traceback, no file touched.

``PROVISION_FUZZ`` is how many; ``nox -s attacks`` tries 2,000, the normal tests a sample. Each case
is made from the kind and the number that a failure shows.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from provision.core.project import CURRENT, RECORD
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER
from tests.attacks.mutations import CANARY, damaged, damaged_json
from tests.attacks.scene import Saved, listing
from tests.condapkg import File, lock_text, make_package
from tests.small import TARGET, reseal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.attacks.scene import Scene

pytestmark = pytest.mark.machine
COUNT = int(os.environ.get("PROVISION_FUZZ", "120"))
LONGEST = 60  # seconds for a command; a damaged file of a megabyte takes well below one
OFFLINE = ("build", TARGET, "--offline", "--no-smoke")
BUNDLE = ("bundle", TARGET, "-o", "{root}/bundle")
CHANGED = ("smoke", TARGET, "--if-driver-changed")
CHECK = ("lock", "--check")
EXPLAIN = ("explain", "alpha")
VERBS = {
    "lock": [CHECK, EXPLAIN, ("verify", TARGET), ("sbom", TARGET), OFFLINE, BUNDLE],
    "conda lock": [
        ("explain", "libthing"),
        ("sbom", TARGET),
        ("verify", TARGET, "--deep"),
        OFFLINE,
        BUNDLE,
    ],
    "record": [
        ("targets",),
        ("build", TARGET, "--offline"),
        ("rollback", TARGET),
        ("clean",),
        CHANGED,
    ],
    "report": [
        ("targets",),
        ("report", TARGET, "-o", "{root}/out.html"),
        ("smoke", TARGET),
        CHANGED,
    ],
    "catalog": [
        CHECK,
        ("explain", "beta"),
        ("detect",),
        ("doctor", "--target", TARGET),
        OFFLINE,
    ],
    "spec": [
        ("targets",),
        ("detect",),
        CHECK,
        EXPLAIN,
        ("verify", TARGET),
        OFFLINE,
        CHANGED,
    ],
}


class Stuck(BaseException):
    """A command that does not end; no handler of errors catches it."""


def files_of(kind: str, scene: Scene) -> list[Path]:
    """Return the files of a kind, of which one is damaged."""
    project, home = scene.lab.project, scene.lab.home
    return {
        "lock": [project.lock(TARGET) / PIP_LAYER],
        "conda lock": [project.lock(TARGET) / CONDA_LAYER],
        "record": sorted(home.glob(f"[0-9a-f]*/{RECORD}")),
        "report": sorted((home / "reports").glob("*.json")),
        "catalog": [
            project.catalog / name
            for name in ("vendor.json", "devices.toml", "drivers.toml")
        ],
        "spec": [project.specs / f"{TARGET}.toml"],
    }[kind]


def add_conda_layer(scene: Scene) -> None:
    folder = scene.root.parent / "channel"
    package = make_package(folder, "libthing", "1.0", {"lib/thing.txt": File(b"x")})
    layer = scene.lab.project.lock(TARGET) / CONDA_LAYER
    text = lock_text(folder.as_uri(), [package]).replace(", ", ",\n")
    layer.write_text(text, encoding="utf-8")
    reseal(layer.parent)


@contextlib.contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Stuck(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.attack(
    "a lock, conda lock, record, report, catalog or spec is damaged or hostile",
    promise="an error or a right answer: no traceback, no hang, no file outside touched",
)
@pytest.mark.parametrize("kind", VERBS)
def test_damaged_files(
    scene: Scene, kind: str, record_property: pytest.RecordProperty
) -> None:
    count = -(-COUNT // len(VERBS))
    lock = scene.lab.project.lock(TARGET)
    if kind == "conda lock":
        add_conda_layer(scene)
    ready = Saved(scene.root)
    outer = scene.root.parent.parent
    for place in (outer, scene.root.parent):
        (place / "canary").mkdir(exist_ok=True)
        (place / "canary" / "a").write_text("sings", encoding="utf-8")
    own = (scene.root, scene.root.parent / "cache", scene.root.parent / ".cache")
    before = listing(outer, *own)
    refused = 0
    for number in range(count):
        chance = random.Random(f"{kind} {number}")
        path = chance.choice(files_of(kind, scene))
        change = damaged_json if path.suffix == ".json" else damaged
        content = change(path.read_bytes(), chance)
        canary = bytes(outer / "canary" / "a")
        path.write_bytes(content.replace(CANARY.encode(), canary))
        if kind == "conda lock" or (kind == "lock" and number % 2):
            reseal(lock)  # half of the locks by themselves fail at the seal
        verb = VERBS[kind][number % len(VERBS[kind])]
        words = [word.format(root=scene.root) for word in verb]
        what = f"{kind} {number}: {' '.join(words)}"
        with no_longer_than(LONGEST):
            ended = scene.call(*words)
        ended.check(what)
        if ended.code in {2, 3} or "left out" in ended.said:
            refused += 1
        assert (scene.lab.home / CURRENT).is_symlink() or words[0] == "rollback", what
        ready.restore()
        if number % 50 == 49 or number == count - 1:
            assert listing(outer, *own) == before, f"{what}, or up to 49 before it"
    assert refused > count / 10  # or the damage does not reach what is read
    record_property("seen", f"{count} of {kind}, {refused} refused")
