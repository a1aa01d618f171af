"""Results that a build reuses: the rule, and the real supervisor with checks in miniature."""

from __future__ import annotations

import atexit
import compileall
import functools
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands import basis
from provision.commands.basis import PURE, Basis, basis_of
from provision.commands.build import build
from provision.commands.check import with_reused
from provision.commands.reuse import Standing, standing
from provision.core.process import run
from provision.core.project import CURRENT
from provision.environment.contents import read_contents
from provision.lockfile.pip import read_lock
from provision.report.history import history, last_report, new_report
from tests.lab import Silent
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Collection

    from provision.report.model import Report
    from tests.lab import Lab

pytestmark = pytest.mark.machine

SMOKE = Path(__file__).parents[2] / "smoke"
CHECK = '''
from smoke.engine.check import check, needs_package
from smoke.engine.finding import fail
from pathlib import Path


@check("{id}", stands_for="s"{more})
def test_it({takes}) -> None:
    """It holds."""
    if Path({flag!r}).exists():
        fail("op-fails", "it fails", cause="c", remedy="r")
'''
# As smoke/device/devices.py, for a torch that has nothing.
DEVICES = "from types import SimpleNamespace as S\ndef of(_): return S(index=None)\n"
CHECKS = ("identity.all", "device.plain", "device.other")
# A check that is required only beside a package, which the suite names therefore.
BESIDE, NEEDED = "device.beside", "accelerate"
ALWAYS = {"identity.all", "identity.requirements"}
EVERY = ALWAYS | {"identity.import"} | set(CHECKS)


@functools.cache
def bare_suite() -> Path:
    """The suite without its checks, compiled: its processes read bytecode, and write none."""
    folder = Path(tempfile.mkdtemp(prefix="bare-suite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("test_*", "__pycache__")
    suite = shutil.copytree(SMOKE, folder / "smoke", ignore=ignored)
    compileall.compile_dir(suite, quiet=2)
    return suite


class Bench:
    """A lab with a stack in miniature, and checks of the environment and of the device."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.flags = lab, folder / "flags"
        self.flags.mkdir()
        suite = lab.project.smoke
        shutil.rmtree(suite)
        shutil.copytree(bare_suite(), suite)
        shutil.copy(SMOKE / "checks" / "test_requirements.py", suite / "checks")
        (suite / "device" / "devices.py").write_text(DEVICES)
        for name in (*CHECKS, BESIDE):
            area, _, word = name.partition(".")
            file = "test_identity.py" if area == "identity" else f"test_{word}.py"
            takes = "expect" if area == "identity" else "device"
            when = f', when=needs_package("{NEEDED}")' if name == BESIDE else ""
            facts = {"id": name, "takes": takes, "more": when}
            text = CHECK.format(flag=str(self.flags / name), **facts)
            (suite / "checks" / file).write_text(text)
        self.wheels = [*lab.wheels, lab.wheel("torch", text="__version__ = '2.0'\n")]

    def build(self, *added: Path) -> Report:
        self.lab.relock(*self.wheels, *added)
        report = build(self.lab.order(), run, Silent()).report
        assert report is not None
        beside = NEEDED in read_lock(self.lab.project.lock(TARGET)).versions
        assert report.counts["required"] == len(EVERY) + beside
        return report


def ran(report: Report) -> set[str]:
    """Return the checks that were run; the others must be reused."""
    names = {check.id for check in report.checks}
    assert (names | {check.id for check in report.reused}) - {BESIDE} == EVERY
    return names


def test_a_small_change_reuses_the_device_s_results(lab: Lab, tmp_path: Path) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    assert ran(first) == EVERY
    second = bench.build(lab.wheel("gamma"))
    assert ran(second) == ALWAYS
    assert second.proves is True
    assert {check.ran for check in second.reused} == {first.started}
    assert second.torch == first.torch == "2.0"
    # A suite that left out more than it may must not be green.
    entry = {"title": "t", "required": False, "reason": "reused"}
    left = [entry | {"id": name} for name in ("device.plain", "device.unknown")]
    stands = Standing(second, frozenset(), frozenset())
    found = with_reused({"checks": [], "not_run": left}, stands)
    assert [check["id"] for check in found["reused"]] == ["device.plain"]
    assert [(e["id"], e["required"]) for e in found["not_run"]] == [
        ("device.unknown", True)
    ]


@pytest.mark.slow
def test_what_is_reused_twice_keeps_its_day_and_what_failed_is_run_until_it_passes(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    bench.build(lab.wheel("gamma"))
    third = bench.build(lab.wheel("gamma"), lab.wheel("delta"))
    assert {check.ran for check in third.reused} == {first.started}
    (bench.flags / "device.other").touch()
    files = {"gamma_native.so": ""}
    native = make_wheel(lab.index.root / "default", "gamma", "2.0", files)
    failed = bench.build(native)
    assert [check.id for check in failed.failed] == ["device.other"]
    (bench.flags / "device.other").unlink()
    assert ran(bench.build(native)) == EVERY


def test_a_check_that_an_added_package_makes_owed_is_run(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    assert {e.id: e.required for e in bench.build().not_run} == {BESIDE: False}
    second = bench.build(lab.wheel("gamma"))
    assert ran(second) == ALWAYS  # and torch is not imported for what is not required
    assert {e.id: e.reason for e in second.not_run} == {
        BESIDE: f"needs {NEEDED}, which is not locked"
    }
    assert ran(bench.build(lab.wheel(NEEDED))) == ALWAYS | {"identity.import", BESIDE}


def test_nothing_is_run_where_one_goes_back_to_what_was_proven(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    bench.build(lab.wheel("gamma"))
    (bench.flags / "identity.all").touch()  # whatever is run fails
    back = bench.build()
    assert ran(back) == set()
    assert back.proves is True
    assert back.lock == first.lock
    assert {check.ran for check in back.reused} == {first.started}


@pytest.mark.slow
def test_what_the_spec_names_now_and_no_run_has_imported_is_imported(
    lab: Lab, tmp_path: Path
) -> None:
    bench, gamma = Bench(lab, tmp_path), lab.wheel("gamma")
    bench.build()
    bench.build(gamma)
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text().replace('["alpha"]', '["alpha", "beta"]'))
    named = bench.build()
    assert ran(named) == ALWAYS
    assert set(named.imported) == {"alpha", "beta"}
    text = spec.read_text()
    spec.write_text(text.replace('["alpha", "beta"]', '["alpha", "beta", "delta"]'))
    failed = bench.build(gamma, lab.wheel("delta", text="import nothing_of_this"))
    assert [check.id for check in failed.failed] == ["identity.requirements"]


@pytest.mark.slow
def test_what_was_added_since_may_change_and_go(lab: Lab, tmp_path: Path) -> None:
    """Beside the build before it was added, nothing is different, whoever names it."""
    bench = Bench(lab, tmp_path)
    bench.wheels += [lab.wheel("theta", text="import gamma\n")]
    bench.build()
    delta = lab.wheel("delta")
    for added in (
        (lab.wheel("gamma"),),
        (lab.wheel("gamma"), delta),
        (lab.wheel("gamma", "2.0"), delta),
        (delta,),
    ):
        assert ran(bench.build(*added)) == ALWAYS


@pytest.mark.slow
def test_what_was_there_before_may_change_where_nothing_names_it(
    lab: Lab, tmp_path: Path
) -> None:
    bench, beta = Bench(lab, tmp_path), lab.wheels[1]
    bench.wheels += [lab.wheel("theta", text="try: import alpha\nexcept: ...\n")]
    bench.wheels += [lab.wheel("gamma")]
    assert ran(bench.build()) == EVERY
    bench.wheels[-1] = lab.wheel("gamma", "2.0")
    assert ran(bench.build()) == ALWAYS
    bench.wheels.pop()
    assert ran(bench.build()) == ALWAYS
    bench.wheels[bench.wheels.index(beta)] = lab.wheel("beta", "2.0", index="vendor")
    assert ran(bench.build()) == ALWAYS
    bench.wheels[0] = lab.wheel("alpha", "2.0")
    assert ran(bench.build()) == EVERY


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


class Rule:
    """Whether results stand in a project, and for which names and words that was asked."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.asked = lab, dict[tuple[str, ...], tuple[str, ...]]()

    def __call__(
        self, closures: dict[str, str], basis: str = "b", *, named: bool = True
    ) -> bool:
        def named_by(names: Collection[str], words: Collection[str]) -> str:
            self.asked[tuple(sorted(names))] = tuple(sorted(words))
            return "torch" if named else ""

        parts = {"spec": basis}
        now = Basis(parts, closures, named_by, lambda words: "gamma" in words, {})
        return isinstance(standing(self.lab.project, TARGET, now), Standing)


# As a report keeps it, of a build that rests on one thing.
_PARTS = {"spec": "b"}
PROVEN: dict[str, Any] = {
    "basis": Basis(_PARTS, {}, lambda *_: "", lambda _: False, {}).digest,
    "parts": _PARTS,
}
HAD = {"alpha": "1.0 a pure: alpha al", "torch": "2.0 b"}


def test_what_a_build_had_stands_while_nothing_that_counts_is_another(
    ready: Lab,
) -> None:
    had, stands = HAD, Rule(ready)
    gone = {"torch": had["torch"]}
    another = had | {"alpha": "2.0 c pure: other"}
    assert not stands(had)
    _kept(ready, **PROVEN, closures=had)
    assert stands(had)
    assert stands(had | {"gamma": "1.0 c pure: gamma"})
    assert not stands.asked  # all that costs time is left out where nothing is gone
    assert stands(gone, named=False)
    assert stands(another, named=False)
    assert stands.asked == {("alpha",): ("al", "alpha", "other")}
    for closures in (
        had | {"gamma": "1.0 c"},  # native
        gone,
        another,
        had | {"alpha": "1.0 d pure: alpha al"},  # from other bytes
    ):
        assert not stands(closures)
    for closures in (
        had | {"torch": "2.0 d"},
        had | {"torch": "2.0 d pure: torch"},  # it was native
        had | {"alpha": "2.0 c"},  # it is native now
        {"alpha": had["alpha"]},
    ):
        assert not stands(closures, named=False)
    assert not stands(had, "other", named=False)


def test_results_stand_since_the_last_build_that_proved_them(ready: Lab) -> None:
    had, stands = HAD, Rule(ready)
    _kept(ready, **PROVEN, closures=had)
    _kept(ready)  # a run of `smoke` that found nothing
    assert stands(had)
    _kept(ready, **PROVEN, closures=had | {"alpha": "changed"})
    assert not stands(had | {"alpha": "changed"} | {"torch": "3 b"}, named=False)
    assert stands(had)  # by the build before
    _kept(ready, broken="it died")
    _kept(ready)
    assert not stands(had)
    # A package of the user's own that the checks may run can differ with each build.
    own = had | {"own": "changed"}
    _kept(ready, **PROVEN, closures=own)
    assert not stands(own, named=False)
    _kept(ready, **PROVEN, closures=had)
    new_report(ready.project, TARGET, "quick").write_text("{")
    assert not stands(had)


def test_why_all_checks_run_is_one_line(lab: Lab, tmp_path: Path) -> None:
    """The first build says nothing: there is nothing that it could reuse."""
    bench = Bench(lab, tmp_path)
    bench.wheels += [lab.wheel("theta", text="try: import alpha\nexcept: ...\n")]

    def why(*added: Path) -> list[str]:
        lab.relock(*bench.wheels, *added)
        silent = Silent()
        assert build(lab.order(), run, silent).generation
        return [
            step for step in silent.steps if step.startswith("all quick checks run")
        ]

    assert why() == []
    assert why(lab.wheel("gamma")) == []
    bench.wheels[0] = lab.wheel("alpha", "2.0")
    assert why() == [
        "all quick checks run: alpha was changed or removed, and theta names it"
    ]


def test_each_reason_to_run_all_checks_is_said(ready: Lab) -> None:
    had = {"alpha": "1.0 a pure: alpha", "beta": "1.0 b", "torch": "2.0 b"}

    def why(closures: dict[str, str]) -> str:
        now = Basis(_PARTS, closures, lambda *_: "torch", lambda _: False, {})
        found = standing(ready.project, TARGET, now)
        assert isinstance(found, str)
        return found

    _kept(ready, **PROVEN, closures=had)
    another = had | {"alpha": "2.0 c pure: alpha"}
    assert why(another) == "alpha was changed or removed, and torch names it"
    left = {"torch": had["torch"]}
    said = "beta changed, and is more than Python that others import"
    assert why(left) == said
    said = "beta, torch changed, and are more than Python that others import"
    assert why({"alpha": had["alpha"]}) == said
    failed = {"code": "op-fails", "level": "error", "symptom": "it fails"}
    failed |= {"cause": "c", "remedy": "r", "evidence": []}
    document = json.loads(history(ready.project, TARGET)[0].read_text())
    (check,) = document["checks"]
    _kept(ready, checks=[check | {"outcome": "failed", "finding": failed}])
    assert "no build has proved it since the run failed on 20" in why(had)
    assert "1 of 1 failed" in why(had)


def test_what_changed_since_the_build_is_named(ready: Lab) -> None:
    report = last_report(ready.project, TARGET)
    assert report is not None
    since = f"changed since the build of {report.started}: "

    def why(kernel: str = "6.1", **parts: str) -> str:
        every = report.parts | {n.replace("_", " "): v for n, v in parts.items()}
        layers = {"kernel": kernel}
        now = Basis(every, report.closures, lambda *_: "", lambda _: False, layers)
        found = standing(ready.project, TARGET, now)
        assert isinstance(found, str)
        return found

    assert {"checks", "interpreter", "spec", "variable PATH"} <= report.parts.keys()
    assert why(checks="others") == since + "checks"
    assert why(variable_LANG="C", spec="s") == since + "spec; variable LANG"
    assert why("6.2", layers_of_the_host="l") == since + "kernel: 6.1 -> 6.2"
    _kept(ready, basis="of an earlier version", parts={})
    assert "an earlier version of Provision made it" in why(checks="others")


def _kept(lab: Lab, **changes: object) -> None:
    """Keep one more report, that of the build with some changes."""
    document: dict[str, Any] = json.loads(history(lab.project, TARGET)[0].read_text())
    without = {"basis": "", "parts": {}, "closures": {}}
    text = json.dumps(document | without | changes)
    new_report(lab.project, TARGET, "quick").write_text(text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hook.pth", "import hooked\n"),
        ("gamma_native.so", ""),
        ("lib/libgamma.so.1", ""),
        ("gamma-1.0.dist-info/entry_points.txt", "[torch.backends]\nx = gamma:f\n"),
        ("gamma-1.0.dist-info/entry_points.txt", "[triton.backends]\nx = gamma:f\n"),
        ("gamma/bin/ptxas", "\x7fELF\x02\x01\0"),
        ("gamma/tools/compiler.exe", "MZ"),
    ],
)
def test_what_is_more_than_pure_python_is_native(
    lab: Lab, file: str, text: str
) -> None:
    files = {"gamma.py": "", file: text}
    gamma = make_wheel(lab.index.root / "default", "gamma", "1.0", files)
    lab.relock(*lab.wheels, gamma)
    lab.build(smoke=False)
    active = {n for n, text in _basis(lab).closures.items() if PURE not in text}
    assert active == {"gamma"}


def test_pure_python_in_a_package_of_another_one_is_not_apart(lab: Lab) -> None:
    default = lab.index.root / "default"
    commands = "[console_scripts]\ngamma = gamma:f\n"
    wheels = [
        make_wheel(default, "gamma", "1.0", {"gamma.py": "", "alpha_parts/x.py": ""}),
        make_wheel(default, "delta", "1.0", {"alpha_parts/y.py": "", "LICENSE": "MIT"}),
        make_wheel(
            default,
            "plain",
            "1.0",
            {"plain.py": "", "plain-1.0.dist-info/entry_points.txt": commands},
        ),
    ]
    lab.relock(*lab.wheels, *wheels)
    lab.build(smoke=False)
    active = {n for n, text in _basis(lab).closures.items() if PURE not in text}
    assert active == {"gamma", "delta"}


@pytest.mark.parametrize(
    ("files", "other", "changed"),
    [
        ({"gamma.py": ""}, "", False),
        ({"gamma.pth": "/somewhere\n"}, "", False),
        ({"gamma.pth": "import __editable___gamma_finder; it()\n"}, "", False),
        ({"gamma.pth": "import gamma_hook\n"}, "", True),
        ({"gamma-1.0.dist-info/entry_points.txt": "[torch.backends]\n"}, "", True),
        ({"gamma.py": ""}, "gamma", True),
        ({"accelerate/__init__.py": ""}, "", True),  # which the suite imports
    ],
)
def test_own_packages_that_the_checks_may_run_are_never_the_same(
    lab: Lab, files: dict[str, str], other: str, *, changed: bool
) -> None:
    default = lab.index.root / "default"
    (lab.project.smoke / "check.py").write_text("import accelerate\n")
    requires = [f"{other}>=1; extra == 'all'"] if other else []
    wheels = [
        make_wheel(default, "gamma", "1.0", files),
        make_wheel(default, "delta", "1.0", {"delta.py": ""}, requires),
    ]
    lab.relock(*lab.wheels, *wheels)
    lab.build(smoke=False)
    found = _basis(lab, local="gamma").closures["gamma"]
    assert (found == "changed") is changed
    site = next((lab.home / CURRENT).resolve().rglob("gamma-1.0.dist-info"))
    metadata = site / "METADATA"
    text = metadata.read_text() + "Requires-Dist: more\n"
    metadata.unlink()  # or the edit would be one of the installer's cache
    metadata.write_text(text)
    assert _basis(lab, local="gamma").closures["gamma"] == found
    for code in site.parent.glob("gamma.p*"):
        code.unlink()
        code.write_text("# another")
        another = _basis(lab, local="gamma").closures["gamma"]
        assert changed or another != found


def test_what_is_no_distribution_is_in_the_basis(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = last_report(ready.project, TARGET)
    assert report is not None
    assert report.closures.keys() == {"alpha", "beta"}
    before = _basis(ready)
    again = _basis(ready)
    assert before.digest == again.digest
    assert before.closures == again.closures
    assert _changed(before, _basis(ready, kernel="6.2")) == {"kernel"}
    with (ready.project.smoke / "run.py").open("a") as stream:
        stream.write("# changed\n")
    assert _changed(before, _basis(ready)) == {"checks"}
    monkeypatch.setattr(basis.platform, "node", lambda: "another")
    (ready.home / CURRENT / "pyvenv.cfg").write_text("home = elsewhere\n")
    changed = {"checks", "interpreter", "name of the machine"}
    assert _changed(before, _basis(ready)) == changed


def _changed(before: Basis, now: Basis) -> set[str]:
    """Return the parts that differ, in which case the digests must differ, too."""
    names = {name for name, _ in before.parts.items() ^ now.parts.items()}
    assert (before.digest != now.digest) is bool(names)
    return names


def _basis(lab: Lab, local: str = "", **facts: str) -> Basis:
    contents = read_contents((lab.home / CURRENT).resolve(), TARGET)
    lock = read_lock(lab.project.lock(TARGET))
    if local:
        lock = replace(lock, header=lock.header | {"local": local})
    return basis_of(lab.project, lock, contents, facts)


def test_the_callers_device_host_and_promise_are_in_the_basis(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheels, found = lab.wheels, list[str]()

    def build_more() -> None:
        lab.relock(*wheels, lab.wheel(f"gamma{len(found)}"))
        report = lab.build().report
        assert report is not None
        found.append(report.basis)

    for name in ("LC_NAME", "LC_TIME"):
        monkeypatch.setenv(name, "C")
    build_more()
    # The same variables in another order.
    monkeypatch.delenv("LC_NAME")
    monkeypatch.setenv("LC_NAME", "C")
    # What the checks do not read, or get another of.
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "77")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # A folder as pyenv's `python3` adds it to what it starts.
    folder = tmp_path / "bin"
    folder.mkdir()
    # And one whose name no folder can have: a look into it is an error, as into root's for others.
    paths = [str(folder), "x" * 300, os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(paths))
    build_more()
    assert found[0] == found[1]
    (folder / "gcc").touch()
    build_more()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    build_more()
    spec = lab.project.specs / f"{TARGET}.toml"
    spec.write_text(spec.read_text() + '[environment]\nNAME = "value"\n')
    build_more()
    assert len(set(found)) == 4 == len(found) - 1
