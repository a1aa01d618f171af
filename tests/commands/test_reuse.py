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
        self.lab = lab
        self.default = lab.index.root / "default"
        self.flags = folder / "flags"
        self.flags.mkdir()
        suite = lab.project.smoke
        shutil.rmtree(suite)
        shutil.copytree(bare_suite(), suite)
        shutil.copy(SMOKE / "checks" / "test_requirements.py", suite / "checks")
        (suite / "device" / "devices.py").write_text(DEVICES)
        self.add_check("identity.all", "test_identity.py", "expect")
        self.add_check("device.plain", "test_plain.py", "device")
        self.add_check("device.other", "test_other.py", "device")
        when = f', when=needs_package("{NEEDED}")'
        self.add_check(BESIDE, "test_beside.py", "device", when)
        torch = lab.wheel("torch", text="__version__ = '2.0'\n")
        self.wheels = [*lab.wheels, torch]

    def add_check(self, name: str, file: str, takes: str, more: str = "") -> None:
        """Add a check that fails while its flag is there."""
        flag = str(self.flags / name)
        text = CHECK.format(id=name, takes=takes, more=more, flag=flag)
        path = self.lab.project.smoke / "checks" / file
        path.write_text(text)

    def build(self, *added: Path) -> Report:
        self.lab.relock(*self.wheels, *added)
        report = build(self.lab.order(), run, Silent()).report
        assert report is not None
        lock = read_lock(self.lab.project.lock(TARGET))
        required = len(EVERY)
        if NEEDED in lock.versions:
            required += 1
        assert report.counts["required"] == required
        return report


def ran(report: Report) -> set[str]:
    """Return the checks that were run; the others must be reused."""
    names = {check.id for check in report.checks}
    reused = {check.id for check in report.reused}
    assert (names | reused) - {BESIDE} == EVERY
    return names


def days(report: Report) -> set[str]:
    """Return when the reused checks were run."""
    return {check.ran for check in report.reused}


def test_a_small_change_reuses_the_device_s_results(lab: Lab, tmp_path: Path) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    assert ran(first) == EVERY
    second = bench.build(lab.wheel("gamma"))
    assert ran(second) == ALWAYS
    assert second.proves is True
    assert days(second) == {first.started}
    assert first.torch == "2.0"
    assert second.torch == "2.0"
    # A suite that left out more than it may must not be green.
    entry = {"title": "t", "required": False, "reason": "reused"}
    left = [entry | {"id": name} for name in ("device.plain", "device.unknown")]
    owed = {"id": "device.late", "title": "t", "required": True, "reason": "no time"}
    stands = Standing(second, frozenset(), frozenset())
    found = with_reused({"checks": [], "not_run": [*left, owed]}, stands)
    (reused,) = found["reused"]
    assert reused["id"] == "device.plain"
    not_run, other = found["not_run"]
    assert not_run["id"] == "device.unknown"
    assert not_run["required"] is True
    assert other == owed


@pytest.mark.slow
def test_what_is_reused_twice_keeps_its_day_and_what_failed_is_run_until_it_passes(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    gamma = lab.wheel("gamma")
    bench.build(gamma)
    third = bench.build(gamma, lab.wheel("delta"))
    assert days(third) == {first.started}
    flag = bench.flags / "device.other"
    flag.touch()
    files = {"gamma_native.so": ""}
    native = make_wheel(bench.default, "gamma", "2.0", files)
    report = bench.build(native)
    (failed,) = report.failed
    assert failed.id == "device.other"
    flag.unlink()
    passed = bench.build(native)
    assert ran(passed) == EVERY


def test_a_check_that_an_added_package_makes_owed_is_run(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    first = bench.build()
    (left,) = first.not_run
    assert left.id == BESIDE
    assert left.required is False
    second = bench.build(lab.wheel("gamma"))
    assert ran(second) == ALWAYS  # and torch is not imported for what is not required
    (left,) = second.not_run
    assert left.id == BESIDE
    assert left.reason == f"needs {NEEDED}, which is not locked"
    third = bench.build(lab.wheel(NEEDED))
    assert ran(third) == ALWAYS | {"identity.import", BESIDE}


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
    assert days(back) == {first.started}


@pytest.mark.slow
def test_what_the_spec_names_now_and_no_run_has_imported_is_imported(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    gamma = lab.wheel("gamma")
    bench.build()
    bench.build(gamma)
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text.replace('["alpha"]', '["alpha", "beta"]'))
    named = bench.build()
    assert ran(named) == ALWAYS
    assert set(named.imported) == {"alpha", "beta"}
    spec.write_text(text.replace('["alpha"]', '["alpha", "beta", "delta"]'))
    delta = lab.wheel("delta", text="import nothing_of_this")
    report = bench.build(gamma, delta)
    (failed,) = report.failed
    assert failed.id == "identity.requirements"


@pytest.mark.slow
def test_what_was_added_since_may_change_and_go(lab: Lab, tmp_path: Path) -> None:
    """Beside the build before it was added, nothing is different, whoever names it."""
    bench = Bench(lab, tmp_path)
    bench.wheels += [lab.wheel("theta", text="import gamma\n")]
    bench.build()
    gamma = lab.wheel("gamma")
    newer = lab.wheel("gamma", "2.0")
    delta = lab.wheel("delta")
    for added in ([gamma], [gamma, delta], [newer, delta], [delta]):
        report = bench.build(*added)
        assert ran(report) == ALWAYS


@pytest.mark.slow
def test_what_was_there_before_may_change_where_nothing_names_it(
    lab: Lab, tmp_path: Path
) -> None:
    bench = Bench(lab, tmp_path)
    _, _, torch = bench.wheels
    theta = lab.wheel("theta", text="try: import alpha\nexcept: ...\n")
    alpha, beta = lab.wheels
    gamma = lab.wheel("gamma")
    newer_alpha = lab.wheel("alpha", "2.0")
    newer_beta = lab.wheel("beta", "2.0", index="vendor")
    newer_gamma = lab.wheel("gamma", "2.0")
    for wheels, checks in (
        ([alpha, beta, torch, theta, gamma], EVERY),
        ([alpha, beta, torch, theta, newer_gamma], ALWAYS),
        ([alpha, beta, torch, theta], ALWAYS),
        ([alpha, newer_beta, torch, theta], ALWAYS),
        ([newer_alpha, newer_beta, torch, theta], EVERY),
    ):
        bench.wheels = wheels
        report = bench.build()
        assert ran(report) == checks


def current(lab: Lab) -> Path:
    return (lab.home / CURRENT).resolve()


def test_a_generation_with_an_edited_file_is_not_used_again(ready: Lab) -> None:
    first = current(ready)
    wheels = ready.wheels
    gamma = ready.wheel("gamma")
    ready.relock(*wheels, gamma)
    ready.build()
    module = next(first.rglob("alpha.py"))
    module.unlink()  # or the edit would be one of the installer's cache
    module.write_text("version = 'evil'\n")
    ready.relock(*wheels)
    ready.build()
    assert current(ready) != first
    assert ready.says("import alpha; print(alpha.version)") == "1.0"


class Rule:
    """Whether results stand in a project, and for which names and words that was asked."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.asked: list[tuple[list[str], list[str]]] = []

    def __call__(
        self, closures: dict[str, str], basis: str = "b", *, named: bool = True
    ) -> bool:
        def named_by(names: Collection[str], words: Collection[str]) -> str:
            self.asked.append((sorted(names), sorted(words)))
            return "torch" if named else ""

        def own(words: Collection[str]) -> bool:
            return "gamma" in words

        now = Basis({"spec": basis}, closures, named_by, own, {})
        found = standing(self.lab.project, TARGET, now)
        return isinstance(found, Standing)


def in_no_suite(_: Collection[str]) -> bool:
    return False


def of_nobody(*_: Collection[str]) -> str:
    return ""


def of_torch(*_: Collection[str]) -> str:
    return "torch"


# As a report keeps it, of a build that rests on one thing.
_PARTS = {"spec": "b"}
_BASIS = Basis(_PARTS, {}, of_nobody, in_no_suite, {})
PROVEN: dict[str, Any] = {"basis": _BASIS.digest, "parts": _PARTS}
HAD = {"alpha": "1.0 a pure: alpha al", "torch": "2.0 b"}


def test_what_a_build_had_stands_while_nothing_that_counts_is_another(
    ready: Lab,
) -> None:
    had = HAD
    stands = Rule(ready)
    gone = {"torch": had["torch"]}
    another = had | {"alpha": "2.0 c pure: other"}
    assert not stands(had)
    _kept(ready, **PROVEN, closures=had)
    assert stands(had)
    assert stands(had | {"gamma": "1.0 c pure: gamma"})
    assert not stands.asked  # all that costs time is left out where nothing is gone
    assert stands(gone, named=False)
    assert stands(another, named=False)
    ((of_gone, _), (of_another, words)) = stands.asked
    assert of_gone == ["alpha"]
    assert of_another == ["alpha"]
    assert words == ["al", "alpha", "other"]
    native_added = had | {"gamma": "1.0 c"}
    other_bytes = had | {"alpha": "1.0 d pure: alpha al"}
    for closures in (native_added, gone, another, other_bytes):
        assert not stands(closures)
    other_native = had | {"torch": "2.0 d"}
    no_longer_native = had | {"torch": "2.0 d pure: torch"}
    native_now = had | {"alpha": "2.0 c"}
    native_gone = {"alpha": had["alpha"]}
    for closures in (other_native, no_longer_native, native_now, native_gone):
        assert not stands(closures, named=False)
    assert not stands(had, "other", named=False)


def test_results_stand_since_the_last_build_that_proved_them(ready: Lab) -> None:
    had = HAD
    stands = Rule(ready)
    _kept(ready, **PROVEN, closures=had)
    _kept(ready)  # a run of `smoke` that found nothing
    assert stands(had)
    changed = had | {"alpha": "changed"}
    _kept(ready, **PROVEN, closures=changed)
    newer_torch = changed | {"torch": "3 b"}
    assert not stands(newer_torch, named=False)
    assert stands(had)  # by the build before
    _kept(ready, broken="it died")
    _kept(ready)
    assert not stands(had)
    # A package of the user's own that the checks may run can differ with each build.
    own = had | {"own": "changed"}
    _kept(ready, **PROVEN, closures=own)
    assert not stands(own, named=False)
    _kept(ready, **PROVEN, closures=had)
    torn = new_report(ready.project, TARGET, "quick")
    torn.write_text("{")
    assert not stands(had)


def test_why_all_checks_run_is_one_line(lab: Lab, tmp_path: Path) -> None:
    """The first build says nothing: there is nothing that it could reuse."""
    bench = Bench(lab, tmp_path)
    theta = lab.wheel("theta", text="try: import alpha\nexcept: ...\n")
    bench.wheels.append(theta)

    def why(*added: Path) -> list[str]:
        lab.relock(*bench.wheels, *added)
        silent = Silent()
        result = build(lab.order(), run, silent)
        assert result.generation
        told = []
        for step in silent.steps:
            if step.startswith("all quick checks run"):
                told.append(step)
        return told

    assert why() == []
    gamma = lab.wheel("gamma")
    assert why(gamma) == []
    bench.wheels[0] = lab.wheel("alpha", "2.0")
    (line,) = why()
    reason = "alpha was changed or removed, and theta names it"
    assert line == f"all quick checks run: {reason}"


def test_each_reason_to_run_all_checks_is_said(ready: Lab) -> None:
    had = {"alpha": "1.0 a pure: alpha", "beta": "1.0 b", "torch": "2.0 b"}

    def why(closures: dict[str, str]) -> str:
        now = Basis(_PARTS, closures, of_torch, in_no_suite, {})
        found = standing(ready.project, TARGET, now)
        assert isinstance(found, str)
        return found

    _kept(ready, **PROVEN, closures=had)
    another = had | {"alpha": "2.0 c pure: alpha"}
    assert why(another) == "alpha was changed or removed, and torch names it"
    only_torch = {"torch": had["torch"]}
    said = "beta changed, and is more than Python that others import"
    assert why(only_torch) == said
    only_alpha = {"alpha": had["alpha"]}
    said = "beta, torch changed, and are more than Python that others import"
    assert why(only_alpha) == said
    finding = {
        "code": "op-fails",
        "level": "error",
        "symptom": "it fails",
        "cause": "c",
        "remedy": "r",
        "evidence": [],
    }
    (check,) = _first_report(ready)["checks"]
    failed = check | {"outcome": "failed", "finding": finding}
    _kept(ready, checks=[failed])
    reason = why(had)
    assert "no build has proved it since the run failed on 20" in reason
    assert "1 of 1 failed" in reason


def test_what_changed_since_the_build_is_named(ready: Lab) -> None:
    report = last_report(ready.project, TARGET)
    assert report is not None
    since = f"changed since the build of {report.started}: "

    def why(kernel: str = "6.1", **parts: str) -> str:
        every = dict(report.parts)
        for name, digest in parts.items():
            every[name.replace("_", " ")] = digest
        layers = {"kernel": kernel}
        now = Basis(every, report.closures, of_nobody, in_no_suite, layers)
        found = standing(ready.project, TARGET, now)
        assert isinstance(found, str)
        return found

    for part in ("checks", "interpreter", "spec", "variable PATH"):
        assert part in report.parts
    assert why(checks="others") == since + "checks"
    assert why(variable_LANG="C", spec="s") == since + "spec; variable LANG"
    assert why("6.2", layers_of_the_host="l") == since + "kernel: 6.1 -> 6.2"
    _kept(ready, basis="of an earlier version", parts={})
    assert "an earlier version of Provision made it" in why(checks="others")


def _first_report(lab: Lab) -> dict[str, Any]:
    first, *_ = history(lab.project, TARGET)
    document: dict[str, Any] = json.loads(first.read_text())
    return document


def _kept(lab: Lab, **changes: object) -> None:
    """Keep one more report, that of the build with some changes."""
    without = {"basis": "", "parts": {}, "closures": {}}
    document = _first_report(lab) | without | changes
    file = new_report(lab.project, TARGET, "quick")
    file.write_text(json.dumps(document))


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
    assert _native(lab) == {"gamma"}


def _native(lab: Lab) -> set[str]:
    """Return the packages of the current environment that are more than pure Python."""
    names = set()
    for name, closure in _basis(lab).closures.items():
        if PURE not in closure:
            names.add(name)
    return names


def test_pure_python_in_a_package_of_another_one_is_not_apart(lab: Lab) -> None:
    packages = {
        "gamma": {"gamma.py": "", "alpha_parts/x.py": ""},
        "delta": {"alpha_parts/y.py": "", "LICENSE": "MIT"},
        "plain": {
            "plain.py": "",
            "plain-1.0.dist-info/entry_points.txt": "[console_scripts]\ngamma = gamma:f\n",
        },
    }
    wheels = list(lab.wheels)
    for name, files in packages.items():
        wheel = make_wheel(lab.index.root / "default", name, "1.0", files)
        wheels.append(wheel)
    lab.relock(*wheels)
    lab.build(smoke=False)
    assert _native(lab) == {"gamma", "delta"}


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
    requires = []
    if other:
        requires.append(f"{other}>=1; extra == 'all'")
    gamma = make_wheel(default, "gamma", "1.0", files)
    delta = make_wheel(default, "delta", "1.0", {"delta.py": ""}, requires)
    lab.relock(*lab.wheels, gamma, delta)
    lab.build(smoke=False)

    def closure() -> str:
        own = _basis(lab, local="gamma")
        return own.closures["gamma"]

    found = closure()
    assert (found == "changed") is changed
    info = next(current(lab).rglob("gamma-1.0.dist-info"))
    metadata = info / "METADATA"
    text = metadata.read_text() + "Requires-Dist: more\n"
    metadata.unlink()  # or the edit would be one of the installer's cache
    metadata.write_text(text)
    assert closure() == found
    for code in info.parent.glob("gamma.p*"):
        code.unlink()
        code.write_text("# another")
        if not changed:
            assert closure() != found


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
    newer = _basis(ready, kernel="6.2")
    assert _changed(before, newer) == {"kernel"}
    suite = ready.project.smoke / "run.py"
    with suite.open("a") as stream:
        stream.write("# changed\n")
    edited = _basis(ready)
    assert _changed(before, edited) == {"checks"}
    monkeypatch.setattr(basis.platform, "node", lambda: "another")
    settings = current(ready) / "pyvenv.cfg"
    settings.write_text("home = elsewhere\n")
    moved = _basis(ready)
    assert _changed(before, moved) == {"checks", "interpreter", "name of the machine"}


def _changed(before: Basis, now: Basis) -> set[str]:
    """Return the parts that differ, in which case the digests must differ, too."""
    names = {name for name, _ in before.parts.items() ^ now.parts.items()}
    if names:
        assert before.digest != now.digest
    else:
        assert before.digest == now.digest
    return names


def _basis(lab: Lab, local: str = "", **facts: str) -> Basis:
    contents = read_contents(current(lab), TARGET)
    lock = read_lock(lab.project.lock(TARGET))
    if local:
        header = lock.header | {"local": local}
        lock = replace(lock, header=header)
    return basis_of(lab.project, lock, contents, facts)


def test_the_callers_device_host_and_promise_are_in_the_basis(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheels = lab.wheels
    found: list[str] = []

    def build_more() -> None:
        number = len(found)
        gamma = lab.wheel(f"gamma{number}")
        lab.relock(*wheels, gamma)
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
    first, second = found
    assert first == second
    (folder / "gcc").touch()
    build_more()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    build_more()
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text + '[environment]\nNAME = "value"\n')
    build_more()
    assert len(found) == 5
    assert len(set(found)) == 4
