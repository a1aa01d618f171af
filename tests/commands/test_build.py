"""A build is whole or not at all: real wheels, the real uv, a real index on loopback."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.wheel_records import wheel_record
from provision.commands.build import build_beside
from provision.core.errors import ToolError
from provision.core.process import run
from provision.lockfile.pip import PIP_LAYER, read_lock
from tests.commands.test_generations import build_with_another_interpreter
from tests.lab import Lab, Silent
from tests.small import TARGET, Index, make_wheel, reseal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from provision.core.project import Project

pytestmark = pytest.mark.machine


def test_a_build_is_recorded_current_and_says_what_it_takes(lab: Lab) -> None:
    built = lab.build()
    assert built.generation is not None
    assert built.plan is not None
    digest = read_lock(lab.project.lock(TARGET)).digest
    assert lab.left() == [digest[:16], "current"]
    assert (
        lab.says("import alpha, beta; print(alpha.version, beta.version)") == "1.0 1.0"
    )
    made = built.generation.record
    assert made.proof == "proven"
    assert made.lock == digest
    assert made.files == 12
    assert made.distributions == ("alpha-1.0.dist-info", "beta-1.0.dist-info")
    size = sum(wheel.stat().st_size for wheel in lab.wheels)
    assert built.plan.packages == 2
    assert built.plan.local == 0
    assert built.plan.fetch == size
    (plan,) = [step for step in lab.listener.steps if "on disk" in step]
    most = f"2 from uv's cache or downloaded (at most {size / 1000:.0f} kB)"
    assert plan.startswith(f"2 packages: 0 from wheelhouses, {most}")


def test_a_download_is_shown_only_where_uv_s_cache_lacks_files(lab: Lab) -> None:
    lab.build()
    downloads = [step for step in lab.listener.steps if "downloading" in step]
    assert downloads == [
        "downloading from the default index",
        "downloading from index vendor",
    ]
    lab.listener.steps.clear()
    shutil.rmtree(lab.home)
    lab.build()
    assert any("installing" in step for step in lab.listener.steps)
    assert not any("downloading" in step for step in lab.listener.steps)


def test_packages_that_do_not_work_together_never_become_current(ready: Lab) -> None:
    before = ready.left()
    torch = {"torch.py": "", "torch/version.py": "__version__ = '2.13.0+cpu'\n"}
    built = [
        make_wheel(ready.index.root / "default", "torch", "2.13.0+cpu", torch),
        ready.wheel("torchvision", "0.27.1+cpu"),
    ]
    ready.relock(*ready.wheels, *built)
    with pytest.raises(ToolError, match="do not work together") as error:
        ready.build()
    assert "torchvision 0.27.1+cpu is for torch 2.12.*" in error.value.evidence
    assert ready.left() == before
    assert ready.says("import alpha; print(alpha.version)") == "1.0"


def test_each_package_is_asked_of_its_own_index_only(lab: Lab) -> None:
    lab.wheel(
        "beta", "9.0"
    )  # a stranger's package of the same name on the default index
    lab.build()
    assert lab.says("import beta; print(beta.version)") == "1.0"
    for path in lab.index.asked:
        assert not path.startswith("/default/beta")
        assert not path.startswith("/vendor/alpha")


def test_a_second_build_has_nothing_to_do(lab: Lab) -> None:
    first = lab.build()
    lab.index.asked.clear()
    second = lab.build()
    assert second.generation == first.generation
    assert second.plan is None
    assert lab.index.asked == []


def test_going_back_to_an_old_lock_takes_its_generation_again(lab: Lab) -> None:
    old = lab.wheels
    new = [lab.wheel("alpha", "2.0"), old[1]]
    unproven = lab.build(smoke=False).generation
    lab.relock(*new)
    proven = lab.build().generation
    lab.index.asked.clear()
    for wheels, generation in ((old, unproven), (new, proven), (old, unproven)):
        lab.relock(*wheels)
        assert lab.build(smoke=False).generation == generation
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
    for path in lab.index.asked:
        assert not path.endswith(".whl")


def test_what_was_built_beside_is_like_others_once_it_is_in_use(ready: Lab) -> None:
    ready.relock(*ready.wheels, ready.wheel("gamma"))
    _, held = build_beside(ready.order(smoke=False), run, ready.listener)
    os.close(held or 0)
    built = ready.build(absent="there is no NVIDIA GPU")
    assert built.plan is None
    assert built.generation is not None
    assert built.generation.record.proof == "unproven"
    assert built.generation.record.reason == "there is no NVIDIA GPU"


def test_failed_checks_change_nothing(ready: Lab) -> None:
    before = ready.left()
    ready.relock(*ready.wheels, ready.wheel("broken"))
    built = ready.build()
    assert built.generation is None
    assert built.report is not None
    assert [check.id for check in built.report.failed] == ["tiny.check"]
    assert ready.left() == before
    assert ready.says("import alpha; print('works')") == "works"


def test_without_checks_it_says_so_until_they_passed(lab: Lab) -> None:
    unproven = lab.build(smoke=False).generation
    assert unproven is not None
    assert unproven.record.proof == "skipped"
    proven = lab.build().generation
    assert proven is not None
    assert proven.record.proof == "proven"
    assert proven.folder == unproven.folder


def test_without_the_device_it_is_unproven_and_says_why(lab: Lab) -> None:
    built = lab.build(absent="there is no NVIDIA GPU")
    assert built.generation is not None
    assert built.report is None
    assert built.generation.record.proof == "unproven"
    assert built.generation.record.reason == "there is no NVIDIA GPU"


def test_an_index_that_fails_leaves_the_old_current(ready: Lab) -> None:
    before = ready.left()
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheels[1])
    ready.index.fault = 404
    with pytest.raises(
        ToolError, match="could not install from the default index"
    ) as caught:
        ready.build()
    assert "alpha-2.0-py3-none-any.whl" in caught.value.evidence
    assert (
        read_lock(ready.project.lock(TARGET)).artifacts[0].sha256
        in caught.value.evidence
    )
    assert "--wheelhouse" in caught.value.remedy
    assert ready.left() == before
    assert ready.says("import alpha; print(alpha.version)") == "1.0"
    ready.index.fault = None
    assert ready.build().generation is not None


def test_a_file_with_another_hash_is_refused(lab: Lab) -> None:
    lab.wheel("alpha", text="evil = True\n")
    with pytest.raises(ToolError) as caught:
        lab.build()
    assert "Hash mismatch" in caught.value.evidence
    assert lab.left() == []


def test_what_is_not_as_locked_after_two_downloads_never_becomes_current(
    ready: Lab,
) -> None:
    before = ready.left()
    gamma = ready.wheel("gamma")
    ready.relock(*ready.wheels, gamma)
    folder = ready.project.lock(TARGET)
    text = (folder / PIP_LAYER).read_text()
    (folder / PIP_LAYER).write_text(text.replace(wheel_record(gamma), "0" * 64))
    reseal(folder)
    with pytest.raises(ToolError, match="is not what is locked") as caught:
        ready.build()
    assert "gamma" in caught.value.evidence
    assert ready.left() == before


def test_a_wheelhouse_serves_without_any_index(lab: Lab, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    for wheel in lab.wheels:
        shutil.copy(wheel, house)
    lab.index.asked.clear()
    lab.build(wheelhouses=(house,), offline=True)
    assert lab.says("import alpha, beta; print('works')") == "works"
    assert lab.index.asked == []


def test_a_damaged_file_in_a_wheelhouse_is_left_aside(lab: Lab, tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    damaged = house / lab.wheels[0].name
    damaged.write_bytes(lab.wheels[0].read_bytes().replace(b"version", b"VERSION"))
    lab.build(wheelhouses=(house,))
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
    assert any(str(damaged) in note for note in lab.listener.notes)


@pytest.mark.parametrize("damage", ["longer", "other bytes", "cut"])
def test_one_damaged_file_of_a_wheelhouse_is_named_and_the_others_are_used(
    lab: Lab, tmp_path: Path, damage: str
) -> None:
    lab.relock(*lab.wheels, lab.wheel("gamma"))
    house = tmp_path / "house"
    house.mkdir()
    for wheel in lab.wheels:
        shutil.copy(wheel, house)
    damaged = house / lab.wheels[0].name
    good = damaged.read_bytes()
    changes = {
        "longer": good + b"x",
        "other bytes": good.replace(b"version", b"VERSION"),
        "cut": good[:100],
    }
    damaged.write_bytes(changes[damage])
    with pytest.raises(ToolError) as caught:
        lab.build(wheelhouses=(house,), offline=True)
    is_, must = (hashlib.sha256(data).hexdigest() for data in (changes[damage], good))
    named = f"{damaged}  sha256 {is_}, must be {must}"
    assert named == caught.value.evidence.splitlines()[0]
    assert "gamma" not in caught.value.evidence
    assert "copy them again" in caught.value.remedy
    assert "--offline" not in caught.value.remedy
    assert lab.index.asked == []
    # With an index, of all files that one alone is downloaded.
    lab.build(wheelhouses=(house,))
    assert {path for path in lab.index.asked if path.endswith(".whl")} == {
        f"/default/{damaged.name}"
    }


def test_offline_without_the_files_names_them(lab: Lab) -> None:
    with pytest.raises(ToolError, match="in no wheelhouse") as caught:
        lab.build(offline=True)
    assert "--offline" in caught.value.cause
    assert lab.index.asked == []


def test_offline_it_names_what_the_cache_lacks_alone(lab: Lab) -> None:
    lab.build()
    gamma = lab.wheel("gamma")
    lab.relock(*lab.wheels, gamma)
    with pytest.raises(ToolError, match="in no wheelhouse") as caught:
        lab.build(offline=True)
    assert gamma.name in caught.value.evidence
    for cached in lab.wheels[:2]:
        assert cached.name not in caught.value.evidence


def test_a_later_install_makes_the_next_build_a_fresh_one(lab: Lab) -> None:
    first = lab.build().generation
    assert first is not None
    (info,) = first.folder.rglob("alpha-1.0.dist-info")
    info.rename(info.with_name("alpha-9.0.dist-info"))
    second = lab.build().generation
    assert second is not None
    assert second.folder.name == f"{first.folder.name}-2"
    assert lab.says("import alpha; print(alpha.version)") == "1.0"


def edit(lab: Lab, *names: str) -> None:
    """Edit modules of the environment in use, not what uv's cache shares with it."""
    for name in names:
        (module,) = (lab.home / "current").resolve().rglob(name)
        text = module.read_text("utf-8")
        module.unlink()
        module.write_text(f"{text}# edited\n", encoding="utf-8")


def remove_record(lab: Lab) -> None:
    (lab.home / "current" / "provision.json").unlink()


def remove_packages(lab: Lab) -> None:
    (site,) = (lab.home / "current").resolve().rglob("site-packages")
    shutil.rmtree(site)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda lab: edit(lab, "alpha.py"),
            "1 file of alpha missing or not as its RECORD says: alpha.py",
        ),
        (
            lambda lab: edit(lab, "alpha.py", "beta.py"),
            "1 file of alpha missing or not as its RECORD says: alpha.py (and 1 more difference)",
        ),
        (
            build_with_another_interpreter,
            f"the interpreter is not the Python {sys.version.split()[0]} that the build used: ",
        ),
        (
            remove_record,
            "GENERATION/provision.json, which says that it is complete, is gone",
        ),
        (remove_packages, "GENERATION has no site-packages any more"),
    ],
)
def test_it_says_why_an_environment_of_the_same_lock_is_built_again(
    ready: Lab, change: Callable[[Lab], None], why: str
) -> None:
    ready.build()
    assert ready.listener.notes == []
    name = (ready.home / "current").resolve().name
    change(ready)
    built = ready.build()
    assert built.plan is not None
    (note,) = ready.listener.notes
    why = why.replace("GENERATION", name)
    assert note.startswith(f"{TARGET}: {why}")
    assert note.endswith("; it is built again")
    # The one that differs is still there, and no reason for anything now.
    ready.build()
    ready.relock(*ready.wheels, ready.wheel("gamma"))
    ready.build()
    assert ready.listener.notes == [note]


def _build_slowly(project: Project, url: str) -> None:
    os.setpgid(0, 0)
    index = Index(project.root, url=url)
    Lab(project, index, [], Silent()).build()


@pytest.mark.parametrize("moment", [0.2, 0.6])
def test_killed_at_any_moment_the_next_build_is_whole(
    ready: Lab, moment: float
) -> None:
    ready.relock(ready.wheel("alpha", "2.0"), ready.wheels[1])
    ready.index.delay = 0.3
    child = multiprocessing.get_context("fork").Process(
        target=_build_slowly, args=(ready.project, ready.index.url)
    )
    child.start()
    time.sleep(moment)
    os.killpg(child.pid or 0, signal.SIGKILL)
    child.join()
    assert ready.says("import alpha; print('works')") == "works"
    ready.index.delay = 0
    assert ready.build().generation is not None
    assert ready.says("import alpha; print(alpha.version)") == "2.0"
    assert len(ready.left()) == 3


def test_of_several_builds_at_once_one_works_and_the_others_wait(lab: Lab) -> None:
    lab.index.delay = 0.2
    context = multiprocessing.get_context("fork")
    children = []
    for _ in range(4):
        words = (lab.project, lab.index.url)
        children.append(context.Process(target=_build_slowly, args=words))
        children[-1].start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert [
        path for path in lab.index.asked if path.endswith("alpha-1.0-py3-none-any.whl")
    ] == ["/default/alpha-1.0-py3-none-any.whl"]
    assert len(lab.left()) == 2


# That SIGTERM ends a command as Ctrl-C does, quickly: tests/core/test_interruption.py.
@pytest.mark.parametrize(
    "name",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)],
)
def test_ctrl_c_during_a_download_leaves_no_current_and_exits_with_130(
    lab: Lab, name: signal.Signals
) -> None:
    lab.index.fault = "stall"
    environment = {**os.environ, "PIP_INDEX_URL": f"{lab.index.url}/default/"}
    command = [
        sys.executable,
        "-m",
        "provision",
        "build",
        TARGET,
        "--project",
        lab.project.root,
    ]
    # A shell starts what it sends to the background with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    ) as child:
        while not any(path.endswith(".whl") for path in lab.index.asked):
            time.sleep(0.02)
        child.send_signal(name)
        _, words = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "interrupted" in words
    assert "Traceback" not in words
    assert lab.left() == []
