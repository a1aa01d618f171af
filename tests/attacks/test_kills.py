"""``kill -9`` over all verbs that write: the old environment works on, and the next run ends.

``PROVISION_KILLS`` is how many; ``nox -s attacks`` tries 200. Most are before the n-th change of a
file, spread over all of a verb; the rest are at moments of verbs that wait for programs. Every
second kill leaves the children of the command at work, as the kernel does when the memory is used up.
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
from tests.attacks.killed import run_killed
from tests.attacks.scene import SOLO, Saved, change
from tests.attacks.test_injected import points
from tests.lab import kill
from tests.report.test_evidence import make_key
from tests.small import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.attacks.scene import Scene

pytestmark = [pytest.mark.machine, pytest.mark.faults]
KILLS = int(os.environ.get("PROVISION_KILLS", "200"))
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
    "evidence": (
        "evidence",
        "emit",
        TARGET,
        "--key",
        "{root}/owner",
        "-o",
        "{root}/out.json",
    ),
}
WAITING = ("build", "repair", "smoke", "lock", "bundle")  # for programs that they start


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
    elif verb == "evidence":
        make_key(scene.root, "owner")
        for words in (("build", TARGET), ("smoke", TARGET, "--full")):
            assert scene.call(*words).code == 0


def start(words: list[str], root: Path) -> subprocess.Popen[bytes]:
    program = (sys.executable, "-I", "-m", "provision")
    argv = [*program, words[0], "--project", str(root), *words[1:]]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, stdout=quiet, stderr=quiet, start_new_session=True)


def again(ready: Saved, verb: str) -> None:
    """Put the scene back before the next kill."""
    if verb == "evidence":  # which signs no copy of the environment that was checked
        (ready.root / "out.json").unlink(missing_ok=True)
    else:
        ready.restore()


def check_after(
    scene: Scene, verb: str, words: list[str], good: int, what: str
) -> None:
    """Fail unless the old environment works, and the next run ends as if there was no kill."""
    assert scene.works(), what
    next_run = scene.call(*words)
    # Where the kill came after the rollback, there is nothing earlier.
    nothing = verb == "rollback" and "no earlier" in next_run.said
    assert next_run.code == (2 if nothing else good), f"{what}\n{next_run.said}"
    if verb in {"build", "clean"}:
        assert unfinished_generations(scene.lab.home) == [], what
    assert scene.works(), what
    checks = [("targets", "--json"), ("lock", "--check")]
    if verb != "rollback":  # the lock is the newer generation's
        checks.append(("verify", TARGET, "--deep"))
    for check in checks:
        ended = scene.call(*check)
        assert ended.code == 0, f"{what}: {' '.join(check)}\n{ended.said}"


def good_code(verb: str) -> int:
    return verb == "bundle"  # 1, incomplete: the index of the lab has none of the tools


@pytest.mark.attack(
    "kill -9 before any change of a file, by any verb that writes",
    promise="the old environment works on, and the next run ends well",
)
@pytest.mark.parametrize("verb", WRITING)
def test_killed_before_a_change(
    scene: Scene, verb: str, record_property: pytest.RecordProperty
) -> None:
    words = [word.format(root=scene.root) for word in WRITING[verb]]
    typed = [words[0], "--project", str(scene.root), *words[1:]]
    prepare(scene, verb)
    ready = Saved(scene.root)
    total = run_killed(typed, scene.root, alone=True)
    assert total > 0
    places = points(total, max(2, KILLS // len(WRITING)))
    for number, at in enumerate(places):
        again(ready, verb)
        ended = run_killed(typed, scene.root, at, alone=number % 2 == 0)
        what = f"{verb}, before change {at} of {total}"
        # The first run may ask uv once more than those after it.
        assert ended == -1 or at == places[-1], f"{what}: it was not killed"
        check_after(scene, verb, words, good_code(verb), what)
    record_property("seen", f"{len(places)} kills of {verb}, of {total} places")


@pytest.mark.attack(
    "kill -9 at any moment of a verb that waits for a program",
    promise="the old environment works on, and the next run ends well",
)
@pytest.mark.parametrize("verb", WAITING)
def test_killed_at_a_moment(
    scene: Scene, verb: str, record_property: pytest.RecordProperty
) -> None:
    words = [word.format(root=scene.root) for word in WRITING[verb]]
    good = good_code(verb)
    count = max(2, -(-KILLS // 3 // len(WAITING)))
    prepare(scene, verb)
    ready = Saved(scene.root)
    began = time.monotonic()
    assert start(words, scene.root).wait() == good
    whole = time.monotonic() - began
    late = 0
    for number in range(count):
        ready.restore()
        child = start(words, scene.root)
        # From a tenth on: before it, Python has loaded nothing of the toolkit.
        time.sleep(whole * (0.1 + 0.9 * number / count))
        if child.poll() is not None:  # it was slower when it was measured
            late += 1
            whole *= 0.8
        kill(child, alone=number % 2 == 0)
        check_after(scene, verb, words, good, f"{verb}, moment {number} of {count}")
    record_property("seen", f"{count} kills of {verb}, {late} too late")
    assert late < count * 3 / 4  # or the kills came too late to mean anything
