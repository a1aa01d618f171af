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
from tests.attacks.mutations import CANARY, damaged, damaged_json, damaged_lock
from tests.attacks.scene import Saved, listing, open_scene
from tests.condapkg import File, lock_text, make_package
from tests.small import TARGET, reseal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.attacks.scene import Scene

pytestmark = pytest.mark.machine
COUNT = int(os.environ.get("PROVISION_FUZZ", "120"))
LONGEST = (
    60  # seconds for one command; a damaged file of a megabyte takes well below one
)
OFFLINE = ("build", TARGET, "--offline", "--no-smoke")
VERBS = {
    "lock": [
        ("lock", "--check"),
        ("verify", TARGET),
        ("sbom", TARGET),
        OFFLINE,
        ("bundle", TARGET, "-o", "{root}/bundle"),
    ],
    "conda lock": [
        ("sbom", TARGET),
        ("verify", TARGET, "--deep"),
        OFFLINE,
        ("bundle", TARGET, "-o", "{root}/bundle"),
    ],
    "record": [
        ("targets",),
        ("build", TARGET, "--offline"),
        ("rollback", TARGET),
        ("clean",),
        ("smoke", TARGET, "--if-driver-changed"),
    ],
    "report": [
        ("targets",),
        ("report", TARGET, "-o", "{root}/out.html"),
        ("smoke", TARGET),
        ("smoke", TARGET, "--if-driver-changed"),
    ],
    "catalog": [
        ("lock", "--check"),
        ("detect",),
        ("doctor", "--target", TARGET),
        OFFLINE,
    ],
    "spec": [
        ("targets",),
        ("detect",),
        ("lock", "--check"),
        ("verify", TARGET),
        OFFLINE,
        ("smoke", TARGET, "--if-driver-changed"),
    ],
}


class Stuck(BaseException):
    """A command that does not end; no handler of errors catches it."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, Saved]]:
    folder = tmp_path_factory.mktemp("fuzz") / "inner"
    for place in (folder, folder.parent):
        (place / "canary").mkdir(parents=True)
        (place / "canary" / "a").write_text("sings", encoding="utf-8")
    with open_scene(folder) as made:
        yield made, Saved(made.root, "saved")


def files_of(kind: str, scene: Scene) -> list[Path]:
    """Return the files of a kind, of which one is damaged."""
    project, home = scene.lab.project, scene.lab.home
    found = {
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
    assert found
    return found


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
    scene: tuple[Scene, Saved], kind: str, record_property: pytest.RecordProperty
) -> None:
    here, saved = scene
    count = COUNT // len(VERBS) + (COUNT % len(VERBS) > 0)
    if kind == "conda lock":
        folder = here.root.parent / "channel"
        package = make_package(folder, "libthing", "1.0", {"lib/thing.txt": File(b"x")})
        layer = here.lab.project.lock(TARGET) / CONDA_LAYER
        layer.write_text(
            lock_text(folder.as_uri(), [package]).replace(", ", ",\n"), encoding="utf-8"
        )
        reseal(layer.parent)
    ready = Saved(here.root, f"saved-{kind.replace(' ', '-')}")
    outer = here.root.parent.parent
    own = (here.root, here.root.parent / "cache", here.root.parent / ".cache")
    before, refused = listing(outer, *own), 0
    for number in range(count):
        chance = random.Random(f"{kind} {number}")
        path = chance.choice(files_of(kind, here))
        change = damaged_lock if kind == "lock" else damaged
        change = damaged_json if path.suffix == ".json" else change
        content = change(path.read_bytes(), chance)
        path.write_bytes(
            content.replace(CANARY.encode(), bytes(outer / "canary" / "a"))
        )
        if kind == "conda lock" or (kind == "lock" and number % 2):
            reseal(
                here.lab.project.lock(TARGET)
            )  # half of the locks by themselves fail at the seal
        words = [
            word.format(root=here.root)
            for word in VERBS[kind][number % len(VERBS[kind])]
        ]
        what = f"{kind} {number}: {' '.join(words)}"
        with no_longer_than(LONGEST):
            ended = here.call(*words)
        ended.check(what)
        refused += ended.code in {2, 3} or "left out" in ended.said
        assert (here.lab.home / CURRENT).is_symlink() or words[0] == "rollback", what
        ready.restore()
        if number % 50 == 49 or number == count - 1:
            assert listing(outer, *own) == before, f"{what}, or up to 49 before it"
    saved.restore()
    assert refused > count / 10  # or the damage does not reach what is read
    record_property("seen", f"{count} of {kind}, {refused} refused")
