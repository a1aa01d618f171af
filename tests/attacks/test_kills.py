"""``kill -9`` over all verbs that write: the old environment works on, and the next run ends.

``PROVISION_KILLS`` is how many; ``nox -s attacks`` tries 100. Half of the kills leave the children
of the command at work, as the kernel does when the memory is used up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from provision.environment.manifest import unfinished_generations
from tests.attacks.scene import SOLO, Saved, change
from tests.lab import kill
from tests.small import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.attacks.scene import Scene

pytestmark = [pytest.mark.machine, pytest.mark.faults]
KILLS = int(os.environ.get("PROVISION_KILLS", "100"))
WRITING = {
    "build": ("build", TARGET),
    "repair": ("verify", TARGET, "--repair"),
    "rollback": ("rollback", TARGET),
    "clean": ("clean",),
    "smoke": ("smoke", TARGET, "--full"),
    "report": ("report", TARGET, "-o", "{root}/out.html"),
    "lock": ("lock", SOLO),
    "update": ("update", "vendor"),
    "bundle": ("bundle", TARGET, "-o", "{root}/bundle"),
}


def prepare(scene: Scene, verb: str) -> None:
    """Give a verb something to do."""
    lab = scene.lab
    if verb == "build":
        lab.relock(lab.wheel("alpha", "3.0"), lab.wheels[1])
    elif verb == "repair":
        (module,) = lab.home.resolve().glob("current/lib/*/site-packages/alpha.py")
        text = module.read_text(encoding="utf-8")
        module.unlink()  # or uv's cache would change too
        module.write_text(f"{text}# edited\n", encoding="utf-8")
    elif verb == "lock":
        (lab.project.lock(SOLO) / "requirements.txt").unlink()
    elif verb == "update":
        vendor = lab.project.catalog / "vendor.json"
        (entry,) = json.loads(vendor.read_text(encoding="utf-8"))["files"]
        del entry["requires_dist"]
        change(vendor, files=[entry])


def start(words: list[str], root: Path) -> subprocess.Popen[bytes]:
    program = (sys.executable, "-I", "-m", "provision")
    argv = [*program, words[0], "--project", str(root), *words[1:]]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, stdout=quiet, stderr=quiet, start_new_session=True)


@pytest.mark.attack(
    "kill -9 at any moment of any verb",
    promise="the old environment works on, and the next run ends well",
)
@pytest.mark.parametrize("verb", WRITING)
def test_killed(
    scene: Scene, verb: str, record_property: pytest.RecordProperty
) -> None:
    words = [word.format(root=scene.root) for word in WRITING[verb]]
    good = 0
    if verb == "bundle":  # incomplete: the index of the lab has none of the tools
        good = 1
    count = -(-KILLS // len(WRITING))
    prepare(scene, verb)
    ready = Saved(scene.root)
    began = time.monotonic()
    assert start(words, scene.root).wait() == good
    whole, late = time.monotonic() - began, 0
    for number in range(count):
        ready.restore()
        child = start(words, scene.root)
        # From a tenth on: before it, Python has loaded nothing of the toolkit.
        time.sleep(whole * (0.1 + 0.9 * number / count))
        if child.poll() is not None:  # it was slower when it was measured
            late, whole = late + 1, whole * 0.8
        kill(child, alone=number % 2 == 0)
        what = f"{verb}, moment {number} of {count}"
        assert scene.works(), what
        again = scene.call(*words)
        # Where the kill came after the rollback, there is nothing earlier.
        nothing = verb == "rollback" and "no earlier" in again.said
        assert again.code == (2 if nothing else good), what
        if verb in {"build", "clean"}:
            assert unfinished_generations(scene.lab.home) == [], what
        assert scene.works(), what
        checks = [("targets", "--json"), ("lock", "--check")]
        if verb != "rollback":  # the lock is the newer generation's
            checks.append(("verify", TARGET, "--deep"))
        for check in checks:
            ended = scene.call(*check)
            assert ended.code == 0, f"{what}: {' '.join(check)}\n{ended.said}"
    record_property("seen", f"{count} kills of {verb}, {late} too late")
    assert late < count * 3 / 4  # or the kills came too late to mean anything
