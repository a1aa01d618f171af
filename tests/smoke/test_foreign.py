"""Somebody else's environment is taken as it is, and its findings speak of no lock of it."""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.check import run_some
from provision.commands.subject import from_interpreter
from provision.commands.suite import SmokeRequest
from provision.core.process import environment_python, run
from provision.spec.reader import load_target
from smoke.checks import test_identity as identity
from smoke.engine.finding import REBUILD, TABLE, CheckFailed, Finding, of_foreign
from tests.checkout import PROJECT
from tests.lab import Silent

if TYPE_CHECKING:
    from provision.report.model import Check, Report

CODE = "import sys; sys.ours = 1\n"  # at the start of Python
IDENTITY = ("python", "code", "versions")


@pytest.fixture
def theirs(python: Path, tmp_path: Path) -> Path:
    """An environment of another kind than ours: torch is on its path by a .pth file."""
    venv.create(tmp_path / "theirs", symlinks=True)
    names = {"base": str(tmp_path / "theirs"), "platbase": str(tmp_path / "theirs")}
    site = Path(sysconfig.get_path("purelib", "venv", names))
    ours = next(python.parents[1].glob("lib/python3.*/site-packages"))
    (site / "torch.pth").write_text(f"{ours}\n")
    (site / "ours.pth").write_text(CODE)
    for version in ("1.0", "2.0"):
        info = site / f"twice-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: twice\nVersion: {version}\n"
        )
    return tmp_path / "theirs"


def checked(prefix: Path, *areas: str) -> dict[str, Check]:
    """Return the results of identity, for a target of another Python."""
    target = load_target(PROJECT.specs, "cpu-linux")
    older = target.model_copy(update={"python": "3.9"})
    subject = from_interpreter(environment_python(prefix), run)
    names = [f"identity.{name}" for name in areas]
    request = SmokeRequest(PROJECT, older, {})
    report: Report = run_some(request, subject, names, run, Silent())
    assert not report.broken
    return {check.id: check for check in report.checks}


@pytest.mark.machine
@pytest.mark.skipif(
    sysconfig.get_platform().startswith("win"), reason="cpu-linux is for Linux"
)
def test_what_its_owner_chose_fails_no_check(theirs: Path) -> None:
    found = checked(theirs, *IDENTITY)
    for name, code, evidence in (
        ("python", "wrong-interpreter-site-packages", "outside of the environment"),
        ("code", "foreign-code-loaded", f"ours.pth runs {CODE.strip()}"),
    ):
        check = found[f"identity.{name}"]
        assert check.outcome == "warned"
        assert check.finding is not None
        assert check.finding.code == code
        assert evidence in check.finding.symptom
        assert "its lock" not in check.finding.remedy
        assert "the build" not in check.finding.cause
    finding = found["identity.versions"].finding
    assert finding is not None
    assert finding.evidence == ("twice: installed 1.0, 2.0",)  # no other is wrong
    assert "over another version" in finding.cause


@pytest.mark.machine
def test_one_without_torch_gets_remedies_for_itself(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", symlinks=True)
    found = checked(tmp_path / "empty", "build")
    assert {*found} == {"identity.import", "identity.build"}
    for check in found.values():
        assert check.finding is not None
        assert check.finding.code == "missing-package"
        assert "install it there" in check.finding.remedy


def test_what_changes_numbers_fails_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, lines in (("_libraries", ["zero"]), ("_finders", ["a hook"])):
        monkeypatch.setattr(identity, name, lambda *_, lines=lines: lines)
    for name in ("_start_lines", "_shadows"):
        monkeypatch.setattr(identity, name, lambda _: [])
    monkeypatch.setattr(identity.metadata, "distributions", list)
    expect: Any = SimpleNamespace(foreign=True)
    with pytest.raises(CheckFailed) as caught:
        identity.test_code(expect)
    finding = caught.value.finding
    assert (finding.level, finding.evidence) == ("error", ("zero",))


@pytest.mark.parametrize("code", TABLE)
def test_no_remedy_names_a_lock_or_a_build_of_it(code: str) -> None:
    texts = TABLE[code]
    given = Finding(code, "s", texts["cause"], texts["remedy"], ())
    told = of_foreign(given, "cuda-linux")
    assert "its lock" not in told.remedy
    assert "after the build" not in told.cause
    if REBUILD in given.remedy and "foreign" not in texts:
        assert "`provision build cuda-linux`" in told.remedy
