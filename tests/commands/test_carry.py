"""Results that a build carries: the real supervisor and workers, with checks in miniature."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.commands.build import build
from provision.commands.check import with_reused
from provision.core.process import run
from provision.report.history import history, last_report
from tests.lab import Silent
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from provision.commands.build import BuildResult
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
        self.lab, self.log, self.flags = lab, folder / "imported", folder / "flags"
        self.flags.mkdir()
        target = lab.project.smoke
        shutil.rmtree(target)
        shutil.copytree(
            SMOKE, target, ignore=shutil.ignore_patterns("test_*", "__pycache__")
        )
        shutil.copy(SMOKE / "checks" / "test_requirements.py", target / "checks")
        (target / "device" / "devices.py").write_text(DEVICES)
        for name in CHECKS:
            area, _, word = name.partition(".")
            file = "test_identity.py" if area == "identity" else f"test_{word}.py"
            takes = "expect" if area == "identity" else "device"
            text = CHECK.format(id=name, takes=takes, flag=str(self.flags / name))
            (target / "checks" / file).write_text(text)
        torch = f"__version__ = '2.0'\nopen({str(self.log)!r}, 'a').write('torch\\n')\n"
        self.torch = self.wheel("torch", text=torch)
        self.wheels = {"torch": self.torch} | {
            p.name.split("-")[0]: p for p in lab.wheels
        }

    def wheel(
        self,
        name: str,
        version: str = "1.0",
        *,
        text: str = "",
        **files: str,
    ) -> Path:
        content = {f"{name}.py": text, **files}
        folder = self.lab.index.root / "default"
        return make_wheel(folder, name, version, content)

    def build(self, *wheels: Path, without: str = "", **changes: object) -> BuildResult:
        self.wheels |= {path.name.split("-")[0]: path for path in wheels}
        self.wheels.pop(without, None)
        self.lab.relock(*self.wheels.values())
        self.log.unlink(missing_ok=True)
        return build(replace(self.lab.order(), **changes), run, Silent())  # type: ignore[arg-type]

    def ran(self, *wheels: Path, without: str = "", **changes: object) -> set[str]:
        """Build, and return the checks that were run; the others must be carried."""
        report = self.build(*wheels, without=without, **changes).report
        assert report is not None
        assert report.proves
        ran = {check.id for check in report.checks}
        assert ran | {check.id for check in report.carried} == EVERY
        assert report.counts["owed"] == len(EVERY)
        return ran


@pytest.fixture
def bench(lab: Lab, tmp_path: Path) -> Bench:
    made = Bench(lab, tmp_path)
    assert made.ran() == EVERY
    return made


def last(bench: Bench) -> Report:
    found = last_report(bench.lab.project, TARGET)
    assert found is not None
    return found


def test_the_device_stands_where_pure_python_is_added(bench: Bench) -> None:
    before = last(bench)
    built = bench.build(bench.wheel("gamma"))
    assert built.report is not None
    assert built.generation is not None
    assert built.generation.record.proof == "proven"
    assert {check.id for check in built.report.checks} == ALWAYS
    assert {check.ran for check in built.report.carried} == {before.started}
    assert built.report.torch == before.torch == "2.0"


def test_what_is_carried_twice_keeps_its_day(bench: Bench) -> None:
    first = last(bench).started
    bench.build(bench.wheel("gamma"))
    path = history(bench.lab.project, TARGET)[-1]
    path.write_text(
        path.read_text().replace(f'"started": "{first[:10]}', '"started": "2027-01-01')
    )
    bench.build(bench.wheel("delta"))
    assert {check.ran for check in last(bench).carried} == {first}


def test_what_changes_or_goes_runs_everything(bench: Bench) -> None:
    assert bench.ran(bench.wheel("alpha", "2.0")) == EVERY
    # The same version from other bytes.
    assert bench.ran(bench.wheel("alpha", "2.0", text="x = 1\n")) == EVERY
    assert bench.ran(bench.wheel("gamma")) == ALWAYS
    assert bench.ran(without="gamma") == EVERY


@pytest.mark.parametrize(
    "files",
    [
        {"hook.pth": "import hooked\n", "hooked.py": ""},
        {"gamma_native.so": ""},
        {"lib/libgamma.so.1": ""},
        {"gamma-1.0.dist-info/entry_points.txt": "[torch.backends]\nx = gamma:f\n"},
    ],
)
def test_what_is_more_than_pure_python_runs_everything(
    bench: Bench, files: dict[str, str]
) -> None:
    assert bench.ran(bench.wheel("gamma", **files)) == EVERY


def test_another_host_suite_or_promise_runs_everything(bench: Bench) -> None:
    number = iter(range(9))

    def ran(**changes: object) -> set[str]:
        return bench.ran(bench.wheel(f"gamma{next(number)}"), **changes)  # type: ignore[arg-type]

    assert ran() == ALWAYS
    assert ran(stack=lambda: {"kernel": "6.2"}) == EVERY
    assert ran(stack=lambda: {"kernel": "6.2"}) == ALWAYS
    with (bench.lab.project.smoke / "engine" / "finding.py").open("a") as stream:
        stream.write("# changed\n")
    assert ran(stack=lambda: {"kernel": "6.2"}) == EVERY
    spec = bench.lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text() + '[environment]\nNAME = "value"\n')
    assert ran(stack=lambda: {"kernel": "6.2"}) == EVERY
    assert ran(stack=lambda: {"kernel": "6.2"}, fresh=True) == EVERY


def test_a_device_that_was_chosen_otherwise_runs_everything(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert bench.ran(bench.wheel("gamma")) == EVERY
    monkeypatch.setattr("platform.node", lambda: "another")
    assert bench.ran(bench.wheel("delta")) == EVERY


def test_what_failed_since_is_not_carried(bench: Bench) -> None:
    words = ["smoke", TARGET, "--project", str(bench.lab.project.root)]
    assert main.main(words) == 0
    assert {each.id for each in last(bench).checks} == EVERY  # `smoke` carries nothing
    assert bench.ran(bench.wheel("gamma")) == ALWAYS
    (bench.flags / "device.plain").touch()
    assert main.main(words) == 1
    (bench.flags / "device.plain").unlink()
    assert bench.ran(bench.wheel("delta")) == EVERY


def test_a_failed_check_is_run_again_until_it_passes(bench: Bench) -> None:
    (bench.flags / "device.other").touch()
    for _ in range(2):
        built = bench.build(bench.wheel("alpha", "2.0"))
        assert built.generation is None
        assert built.report is not None
        assert [check.id for check in built.report.failed] == ["device.other"]
    (bench.flags / "device.other").unlink()
    assert "device.other" in bench.ran()


def test_an_old_generation_is_used_again_only_if_no_file_changed(bench: Bench) -> None:
    first = (bench.lab.home / "current").resolve()
    bench.build(bench.wheel("gamma"))
    bench.ran(without="gamma")
    assert (bench.lab.home / "current").resolve() == first
    bench.build(bench.wheel("gamma"))
    module = next(first.rglob("alpha.py"))
    text = module.read_text()
    module.unlink()  # or the edit would be one of the installer's cache
    module.write_text(text.replace("1", "2"))
    bench.ran(without="gamma")
    assert (bench.lab.home / "current").resolve() != first
    assert bench.lab.says("import alpha; print(alpha.version)") == "1.0"


def test_what_the_suite_leaves_out_without_a_result_is_owed(bench: Bench) -> None:
    """A suite that left out more than it may must not be green."""
    left = [
        {"id": name, "title": "t", "owed": False, "reason": "carried"}
        for name in ("device.plain", "device.unknown")
    ]
    found = with_reused({"checks": [], "not_run": left}, last(bench))
    assert [check["id"] for check in found["carried"]] == ["device.plain"]
    assert [(entry["id"], entry["owed"]) for entry in found["not_run"]] == [
        ("device.unknown", True)
    ]


def test_a_locked_package_that_the_spec_names_now_is_imported(bench: Bench) -> None:
    spec = bench.lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('["alpha"]', '["alpha", "beta"]'))
    assert bench.ran(bench.wheel("gamma")) == ALWAYS
    checks = {each.id: each for each in last(bench).checks}
    assert checks["identity.requirements"].numbers["imported"].value == 2


@pytest.mark.parametrize(
    "changes", [{"basis": "0" * 64}, {"closures": {"alpha": "changed"}}]
)
def test_what_no_longer_holds_carries_nothing(
    bench: Bench, changes: dict[str, object]
) -> None:
    """``changed``: a package of the user's own can differ with each build."""
    (path,) = history(bench.lab.project, TARGET)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert bench.ran(bench.wheel("gamma")) == EVERY
