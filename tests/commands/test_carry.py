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
from provision.commands.carry import Earlier, Facts
from provision.core.process import run
from provision.report.history import history, last_report
from tests.lab import Silent
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.commands.build import BuildResult
    from provision.report.model import Report
    from tests.lab import Lab

pytestmark = pytest.mark.machine

SMOKE = Path(__file__).parents[2] / "smoke"
CHECK = '''
from smoke.engine.check import check
from smoke.engine.finding import fail
from pathlib import Path


@check("{id}", stands_for="s"{more})
def test_it(expect) -> None:
    """It holds."""
    if Path({flag!r}).exists():
        fail("op-fails", "it fails", cause="c", remedy="r")
'''
CHECKS = {
    "identity.all": "",
    "device.plain": ", depends=()",
    "device.alpha": ', depends=("alpha",)',
}
EVERY = {*CHECKS, "identity.import", "identity.requirements"}


class Bench:
    """A lab with a stack that depends on parts, and checks that say which."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.log, self.flags = lab, folder / "imported", folder / "flags"
        self.flags.mkdir()
        target = lab.project.smoke
        shutil.rmtree(target)
        shutil.copytree(
            SMOKE, target, ignore=shutil.ignore_patterns("test_*", "__pycache__")
        )
        shutil.copy(SMOKE / "test_requirements.py", target)
        for name, more in CHECKS.items():
            area, _, word = name.partition(".")
            file = "test_identity.py" if area == "identity" else f"test_{word}.py"
            text = CHECK.format(id=name, more=more, flag=str(self.flags / name))
            (target / file).write_text(text)
        torch = f"__version__ = '2.0'\nopen({str(self.log)!r}, 'a').write('torch\\n')\n"
        self.torch = self.wheel("torch", text=torch, requires=["depth; extra == 'all'"])
        self.wheels = {"torch": self.torch} | {
            p.name.split("-")[0]: p for p in lab.wheels
        }

    def wheel(
        self,
        name: str,
        version: str = "1.0",
        *,
        text: str = "",
        requires: Sequence[str] = (),
        **files: str,
    ) -> Path:
        content = {f"{name}.py": text, **files}
        return make_wheel(
            self.lab.index.root / "default", name, version, content, requires
        )

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


ALWAYS = {"identity.all", "identity.requirements"}


def test_a_package_that_nothing_needs_starts_no_torch(bench: Bench) -> None:
    before = last(bench)
    built = bench.build(bench.wheel("gamma"))
    assert built.report is not None
    assert built.generation is not None
    assert built.generation.record.proof == "proven"
    assert {check.id for check in built.report.checks} == ALWAYS
    assert {check.ran for check in built.report.carried} == {before.started}
    assert built.report.torch == before.torch == "2.0"
    assert not bench.log.exists()
    (requirements,) = [
        c for c in built.report.checks if c.id == "identity.requirements"
    ]
    assert {key: n.value for key, n in requirements.numbers.items()} == {
        "imported": 0,
        "imported before": 1,
    }


def test_what_is_carried_twice_keeps_its_day(bench: Bench) -> None:
    first = last(bench).started
    bench.build(bench.wheel("gamma"))
    path = history(bench.lab.project, TARGET)[-1]
    path.write_text(
        path.read_text().replace(f'"started": "{first[:10]}', '"started": "2027-01-01')
    )
    bench.build(bench.wheel("delta"))
    assert {check.ran for check in last(bench).carried} == {first}


def test_only_the_checks_of_what_changed_are_run(bench: Bench) -> None:
    assert bench.ran(bench.wheel("alpha", "2.0")) == {
        *ALWAYS,
        "identity.import",
        "device.alpha",
    }
    # The same version from other bytes, a requirement of a requirement, and one that is optional.
    assert "device.alpha" in bench.ran(bench.wheel("alpha", "2.0", requires=["gamma"]))
    assert "device.alpha" in bench.ran(bench.wheel("gamma"))
    assert "device.plain" not in bench.ran(bench.wheel("gamma", "2.0"))
    assert bench.ran(bench.wheel("depth")) == EVERY
    assert bench.ran(without="depth") == EVERY
    assert (
        bench.ran(bench.wheel("numpy")) == EVERY
    )  # torch links to it without requiring it


def test_what_acts_at_every_start_concerns_every_check(bench: Bench) -> None:
    hook = {"hook.pth": "import hooked\n", "hooked.py": ""}
    assert bench.ran(bench.wheel("gamma", **hook)) == EVERY
    assert (
        bench.ran(bench.wheel("gamma", **hook | {"hooked.py": "import os\n"})) == EVERY
    )
    assert bench.ran(bench.wheel("delta")) != EVERY
    points = {"eps-1.0.dist-info/entry_points.txt": "[torch.backends]\nx = eps:load\n"}
    assert bench.ran(bench.wheel("eps", **points)) == EVERY
    assert bench.ran(without="eps") == EVERY


def test_another_host_suite_or_promise_runs_everything(bench: Bench) -> None:
    number = iter(range(9))

    def ran(**changes: object) -> set[str]:
        return bench.ran(bench.wheel("gamma", f"{next(number)}.0"), **changes)  # type: ignore[arg-type]

    assert ran() == ALWAYS
    assert ran(stack=lambda: {"kernel": "6.2"}) == EVERY
    assert ran(stack=lambda: {"kernel": "6.2"}) == ALWAYS
    with (bench.lab.project.smoke / "finding.py").open("a") as stream:
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
    assert bench.ran(bench.wheel("gamma", "2.0")) == EVERY


def test_what_failed_since_is_not_carried(bench: Bench) -> None:
    (bench.flags / "device.plain").touch()
    assert main.main(["smoke", TARGET, "--project", str(bench.lab.project.root)]) == 1
    assert {
        check.id for check in last(bench).checks
    } == EVERY  # `smoke` carries nothing
    (bench.flags / "device.plain").unlink()
    assert bench.ran(bench.wheel("gamma")) == {
        *ALWAYS,
        "identity.import",
        "device.plain",
    }


def test_a_failed_check_is_run_again_until_it_passes(bench: Bench) -> None:
    (bench.flags / "device.alpha").touch()
    for _ in range(2):
        built = bench.build(bench.wheel("alpha", "2.0"))
        assert built.generation is None
        assert built.report is not None
        assert [check.id for check in built.report.failed] == ["device.alpha"]
    (bench.flags / "device.alpha").unlink()
    assert "device.alpha" in bench.ran()


def test_an_old_generation_is_used_again_only_if_no_file_changed(bench: Bench) -> None:
    first = (bench.lab.home / "current").resolve()
    bench.build(bench.wheel("gamma"))
    assert bench.ran(without="gamma") == ALWAYS
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
    found = Earlier(last(bench), set()).complete({"checks": [], "not_run": left})
    assert [check["id"] for check in found["carried"]] == ["device.plain"]
    assert [(entry["id"], entry["owed"]) for entry in found["not_run"]] == [
        ("device.unknown", True)
    ]


def test_a_locked_package_that_the_spec_names_now_is_imported(bench: Bench) -> None:
    spec = bench.lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('["alpha"]', '["alpha", "beta"]'))
    assert bench.ran(bench.wheel("gamma")) == ALWAYS
    (check,) = [
        each for each in last(bench).checks if each.id == "identity.requirements"
    ]
    assert {name: each.value for name, each in check.numbers.items()} == {
        "imported": 1,
        "imported before": 1,
    }


def test_an_unreadable_or_a_foreign_report_carries_nothing(bench: Bench) -> None:
    (path,) = history(bench.lab.project, TARGET)
    damaged = path.with_name(f"{path.stem}z.json")
    damaged.write_text("{")
    assert bench.ran(bench.wheel("gamma")) == EVERY
    damaged.unlink()
    for each in history(bench.lab.project, TARGET):
        document = json.loads(each.read_text())
        each.write_text(json.dumps(document | {"basis": "0" * 64}))
    assert bench.ran(bench.wheel("gamma", "2.0")) == EVERY


def test_a_required_package_that_is_not_locked_counts_as_changed(bench: Bench) -> None:
    """A package of the user's own can differ with each build."""
    report = last(bench)
    closures = report.closures | {"own": ""}
    before = Earlier(report.model_copy(update={"closures": closures}), set())
    assert before.request(Facts(report.basis, closures))["changed"] == ["own"]
