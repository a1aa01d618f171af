"""Results that a build carries: the rule, and the real supervisor with checks in miniature."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands import carry
from provision.commands.build import build
from provision.commands.carry import Basis, basis_of, standing
from provision.commands.check import with_reused
from provision.core.process import run
from provision.core.project import CURRENT
from provision.environment.contents import read_contents
from provision.lockfile.pip import read_lock
from provision.report.history import history, last_report, new_report
from tests.lab import Silent
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from provision.report.model import Report
    from tests.lab import Lab

pytestmark = pytest.mark.machine

SMOKE = Path(__file__).parents[2] / "smoke"
CHECK = '''
from smoke.engine.check import check
from smoke.engine.finding import fail
from pathlib import Path


@check("{id}", stands_for="s")
def test_it({takes}) -> None:
    """It holds."""
    if Path({flag!r}).exists():
        fail("op-fails", "it fails", cause="c", remedy="r")
'''
# As smoke/device/devices.py, for a torch that has nothing.
DEVICES = "from types import SimpleNamespace as S\ndef of(_): return S(index=None)\n"
CHECKS = ("identity.all", "device.plain", "device.other")
ALWAYS = {"identity.all", "identity.import", "identity.requirements"}
EVERY = ALWAYS | set(CHECKS)


class Bench:
    """A lab with a stack in miniature, and checks of the environment and of the device."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.flags = lab, folder / "flags"
        self.flags.mkdir()
        suite = lab.project.smoke
        shutil.rmtree(suite)
        bare = shutil.ignore_patterns("test_*", "__pycache__")
        shutil.copytree(SMOKE, suite, ignore=bare)
        shutil.copy(SMOKE / "checks" / "test_requirements.py", suite / "checks")
        (suite / "device" / "devices.py").write_text(DEVICES)
        for name in CHECKS:
            area, _, word = name.partition(".")
            file = "test_identity.py" if area == "identity" else f"test_{word}.py"
            takes = "expect" if area == "identity" else "device"
            text = CHECK.format(id=name, takes=takes, flag=str(self.flags / name))
            (suite / "checks" / file).write_text(text)
        self.wheels = [*lab.wheels, lab.wheel("torch", text="__version__ = '2.0'\n")]

    def build(self, *added: Path) -> Report:
        self.lab.relock(*self.wheels, *added)
        report = build(self.lab.order(), run, Silent()).report
        assert report is not None
        assert report.counts["owed"] == len(EVERY)
        return report


def ran(report: Report) -> set[str]:
    """Return the checks that were run; the others must be carried."""
    names = {check.id for check in report.checks}
    assert names | {check.id for check in report.carried} == EVERY
    return names


def test_a_small_change_carries_the_device_and_a_failure_ends_that(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    assert ran(first) == EVERY
    second = bench.build(lab.wheel("gamma"))
    assert (ran(second), second.proves) == (ALWAYS, True)
    assert {check.ran for check in second.carried} == {first.started}
    assert second.torch == first.torch == "2.0"
    # What is carried twice keeps its day.
    third = bench.build(lab.wheel("gamma"), lab.wheel("delta"))
    assert {check.ran for check in third.carried} == {first.started}
    # A check that failed is run again until it passes.
    (bench.flags / "device.other").touch()
    failed = bench.build(lab.wheel("gamma", "2.0"))
    assert [check.id for check in failed.failed] == ["device.other"]
    (bench.flags / "device.other").unlink()
    assert ran(bench.build(lab.wheel("gamma", "2.0"))) == EVERY
    # A suite that left out more than it may must not be green.
    entry = {"title": "t", "owed": False, "reason": "carried"}
    left = [entry | {"id": name} for name in ("device.plain", "device.unknown")]
    found = with_reused({"checks": [], "not_run": left}, third)
    assert [check["id"] for check in found["carried"]] == ["device.plain"]
    assert [(e["id"], e["owed"]) for e in found["not_run"]] == [
        ("device.unknown", True)
    ]


def test_a_generation_with_an_edited_file_is_not_used_again(ready: Lab) -> None:
    first, wheels = (ready.home / CURRENT).resolve(), ready.wheels
    ready.relock(*wheels, ready.wheel("gamma"))
    ready.build()
    module = next(first.rglob("alpha.py"))
    module.unlink()  # or the edit would be one of the installer's cache
    module.write_text("version = 'evil'\n")
    ready.relock(*wheels)
    ready.build()
    assert (ready.home / CURRENT).resolve() != first
    assert ready.says("import alpha; print(alpha.version)") == "1.0"


def test_the_rule(ready: Lab) -> None:
    had = {"alpha": "1.0 a", "torch": "2.0 b"}
    same, more = Basis("b", had, frozenset()), had | {"gamma": "1.0 c"}
    assert standing(ready.project, TARGET, same) is None
    _kept(ready, basis="b", closures=had)
    for now in (same, Basis("b", more, frozenset({"torch"}))):
        assert standing(ready.project, TARGET, now)
    for now in (
        Basis("other", had, frozenset()),
        Basis("b", more, frozenset({"gamma"})),
        Basis("b", had | {"alpha": "1.0 d"}, frozenset()),  # from other bytes
        Basis("b", {"torch": "2.0 b"}, frozenset()),
    ):
        assert standing(ready.project, TARGET, now) is None
    _kept(ready)  # a run of `smoke` that found nothing
    assert standing(ready.project, TARGET, same)
    _kept(ready, broken="it died")
    _kept(ready)
    assert standing(ready.project, TARGET, same) is None
    # A package of the user's own can differ with each build.
    own = had | {"own": "changed"}
    _kept(ready, basis="b", closures=own)
    assert standing(ready.project, TARGET, Basis("b", own, frozenset())) is None
    _kept(ready, basis="b", closures=had)
    new_report(ready.project, TARGET, "quick").write_text("{")
    assert standing(ready.project, TARGET, same) is None


def _kept(lab: Lab, **changes: object) -> None:
    """Keep one more report, that of the build with some changes."""
    document: dict[str, Any] = json.loads(history(lab.project, TARGET)[0].read_text())
    text = json.dumps(document | {"basis": "", "closures": {}} | changes)
    new_report(lab.project, TARGET, "quick").write_text(text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hook.pth", "import hooked\n"),
        ("gamma_native.so", ""),
        ("lib/libgamma.so.1", ""),
        ("gamma-1.0.dist-info/entry_points.txt", "[torch.backends]\nx = gamma:f\n"),
    ],
)
def test_what_is_more_than_pure_python_is_native(
    lab: Lab, file: str, text: str
) -> None:
    files = {"gamma.py": "", file: text}
    gamma = make_wheel(lab.index.root / "default", "gamma", "1.0", files)
    lab.relock(*lab.wheels, gamma)
    lab.build(smoke=False)
    assert _basis(lab).native == {"gamma"}


def test_what_is_no_distribution_is_in_the_basis(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = last_report(ready.project, TARGET)
    assert report is not None
    assert report.closures.keys() == {"alpha", "beta"}
    before = _basis(ready)
    assert before == _basis(ready)
    found = {before.basis, _basis(ready, kernel="6.2").basis}
    with (ready.project.smoke / "run.py").open("a") as stream:
        stream.write("# changed\n")
    found.add(_basis(ready).basis)
    monkeypatch.setattr(carry.platform, "node", lambda: "another")
    found.add(_basis(ready).basis)
    (ready.home / CURRENT / "pyvenv.cfg").write_text("home = elsewhere\n")
    found.add(_basis(ready).basis)
    assert len(found) == 5


def _basis(lab: Lab, **facts: str) -> Basis:
    contents = read_contents((lab.home / CURRENT).resolve(), TARGET)
    return basis_of(lab.project, read_lock(lab.project.lock(TARGET)), contents, facts)


def test_the_callers_device_host_and_promise_are_in_the_basis(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, found = lab.wheels, list[str]()

    def build_more() -> None:
        lab.relock(*wheels, lab.wheel(f"gamma{len(found)}"))
        report = lab.build().report
        assert report is not None
        found.append(report.basis)

    build_more()
    build_more()
    assert found[0] == found[1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    build_more()
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text() + '[environment]\nNAME = "value"\n')
    build_more()
    assert len(set(found)) == 3 == len(found) - 1
