"""Evidence of real runs: only what was run then is signed, and nothing that changed since."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from provision.report.history import history
from tests.lab import typed
from tests.report.test_evidence import make_key
from tests.small import SUITE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab import Lab

pytestmark = pytest.mark.machine
LOOKS = 'importlib.util.find_spec("broken") is not None'
HOLLOW = SUITE.replace(LOOKS, "False")


def call(lab: Lab, *words: str | Path) -> str:
    """Run a command, and return what it said, after its exit code."""
    done = typed(words[0], "--project", lab.project.root, *words[1:])
    return f"{done.returncode} {done.stdout}{done.stderr}"


def smoke(lab: Lab, suite: str = "--full") -> None:
    assert call(lab, "smoke", TARGET, suite)[0] == "0"


def emit(lab: Lab) -> str:
    return call(
        lab,
        "evidence",
        "emit",
        TARGET,
        "--key",
        lab.project.root / "owner",
        "-o",
        lab.project.evidence / "tiny.json",
    )


@pytest.fixture
def proven(lab: Lab) -> Lab:
    """A lab with a key, and an environment that is built."""
    make_key(lab.project.root, "owner")
    lab.project.evidence.mkdir(parents=True)
    (lab.project.root / "keys").rename(lab.project.evidence / "keys")
    lab.build()
    return lab


def module(lab: Lab) -> Path:
    return next((lab.home / "current").resolve().rglob("alpha.py"))


def test_what_was_run_is_signed_and_verified_until_suite_or_lock_change(
    proven: Lab,
) -> None:
    smoke(proven)
    assert emit(proven)[0] == "0"
    assert call(proven, "evidence", "verify").startswith("0 valid")
    run = proven.project.smoke / "run.py"
    run.write_text(f"{SUITE}\n")
    assert "another suite of checks" in call(proven, "evidence", "verify")
    run.write_text(SUITE)
    proven.relock(proven.wheel("alpha", "2.0"), proven.wheels[1])
    assert "tiny has another lock now" in call(proven, "evidence", "verify")


def test_files_that_were_copied_or_restored_are_hashed_by_the_full_suite(
    proven: Lab,
) -> None:
    path = module(proven)
    text = path.read_bytes()
    path.unlink()
    path.write_bytes(text)  # another inode and time
    smoke(proven)
    assert emit(proven)[0] == "0"


def _hollow_suite(lab: Lab) -> None:
    run = lab.project.smoke / "run.py"
    run.write_text(HOLLOW)
    smoke(lab)
    run.write_text(SUITE)


def _suite_swapped_back_while_it_runs(lab: Lab) -> None:
    run = lab.project.smoke / "run.py"
    back = f"\nopen({str(run)!r}, 'w').write({SUITE!r})\n"
    run.write_text(HOLLOW.replace("sys.exit(broken)", back))
    smoke(lab)


def _environment_edited(lab: Lab) -> None:
    path = module(lab)
    path.write_text(path.read_text() + "# edited\n")
    smoke(lab)


def _environment_edited_and_mended(lab: Lab) -> None:
    path = module(lab)
    text = path.read_text()
    path.write_text(text.replace("1.0", "6.6"))
    smoke(lab)
    path.write_text(text)


def _environment_edited_since(lab: Lab) -> None:
    smoke(lab)
    path = module(lab)
    state = path.stat()
    path.write_text(path.read_text().replace("1.0", "6.6"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # only its hash tells


def _another_generation(lab: Lab) -> None:
    smoke(lab)
    wheels = list(lab.wheels)
    lab.relock(lab.wheel("alpha", "2.0"), wheels[1])
    lab.build()
    lab.relock(*wheels)


def _edited_device(lab: Lab) -> None:
    smoke(lab)
    path = history(lab.project, TARGET)[-1]
    path.write_text(path.read_text().replace('"toy"', '"NVIDIA H100"'))


def _later_failure(lab: Lab) -> None:
    smoke(lab)
    broken = module(lab).with_name("broken.py")
    broken.touch()
    assert call(lab, "smoke", TARGET)[0] == "1"
    broken.unlink()


def _later_failure_removed(lab: Lab) -> None:
    _later_failure(lab)
    history(lab.project, TARGET)[-1].unlink()


def _later_failure_damaged(lab: Lab) -> None:
    smoke(lab)
    smoke(lab, "--quick")
    history(lab.project, TARGET)[-1].write_text("{")


def _earlier_version(lab: Lab) -> None:
    smoke(lab)
    path = history(lab.project, TARGET)[-1]
    document = json.loads(path.read_text())
    del document["seal"], document["tree"], document["stamp"]
    path.write_text(json.dumps(document))


ATTACKS: dict[str, tuple[Callable[[Lab], None], str]] = {
    "hollow suite": (_hollow_suite, "suite of checks is another"),
    "suite swapped": (_suite_swapped_back_while_it_runs, "changed while it ran"),
    "edited": (_environment_edited, "files of the environment changed"),
    "edited and mended": (_environment_edited_and_mended, "environment changed"),
    "edited since": (_environment_edited_since, "of alpha missing or not as"),
    "another generation": (_another_generation, "it is another generation"),
    "device": (_edited_device, "was edited"),
    "failure": (_later_failure, "a later run of the quick suite: failed"),
    "failure removed": (_later_failure_removed, "is not proven"),
    "failure damaged": (_later_failure_damaged, "which is later, cannot be read"),
    "earlier version": (_earlier_version, "an earlier version wrote it"),
}


@pytest.mark.parametrize(("attack", "said"), ATTACKS.values(), ids=ATTACKS)
def test_attack_what_was_not_run_so_is_not_signed(
    proven: Lab, attack: Callable[[Lab], None], said: str
) -> None:
    attack(proven)
    ended = emit(proven)
    assert ended[0] == "2", ended
    assert said in ended
    assert not (proven.project.evidence / "tiny.json").exists()


def test_attack_a_report_of_another_host_is_not_signed(
    proven: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoke(proven)
    probe = "provision.commands.evidence.read_layers"
    monkeypatch.setattr(probe, lambda _: {"kernel": "5.0"})
    assert "the host changed: kernel" in emit(proven)


@pytest.fixture
def newcomer(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab of somebody without a key."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PIP_INDEX_URL", f"{lab.index.url}/default/")
    (lab.project.evidence / "keys").mkdir(parents=True)
    return lab


def test_one_command_builds_checks_signs_and_puts_into_the_matrix(
    newcomer: Lab,
) -> None:
    said = call(newcomer, "evidence", "submit", TARGET)
    assert said[0] == "0", said
    (file,) = newcomer.project.evidence.rglob("*.json")
    assert f"git add {file.relative_to(newcomer.project.root)}" in said
    (key,) = (newcomer.project.private or file).glob("evidence-key")
    assert key.stat().st_mode & 0o777 == 0o600
    checked = call(newcomer, "evidence", "check")
    assert checked.startswith(f"0 valid: {file}")
    assert "SHA256:" in checked
    assert call(newcomer, "evidence", "verify").startswith(
        "1 refused"
    )  # whose key is it?
    again = json.loads(call(newcomer, "evidence", "submit", file, "--json", "-q")[2:])
    assert again["result"]["file"] == str(file)


def test_a_key_that_cannot_sign_ends_the_command_before_the_build(
    newcomer: Lab,
) -> None:
    said = call(newcomer, "evidence", "submit", TARGET, "--key", "~/none")
    assert said[0] == "2", said
    assert "cannot sign with" in said
    assert not (newcomer.home / "current").exists()


def test_a_user_without_a_home_is_told_that_a_key_is_needed(
    newcomer: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setattr(
        "pwd.getpwuid", {}.__getitem__
    )  # as for a user without an entry
    said = call(newcomer, "evidence", "submit", TARGET)
    assert said[0] == "2", said
    assert "name one of ed25519 with --key" in said


def test_nothing_is_signed_or_submitted_where_a_check_fails(newcomer: Lab) -> None:
    newcomer.relock(*newcomer.wheels, newcomer.wheel("broken"))
    said = call(newcomer, "evidence", "submit", TARGET)
    assert said[0] == "1", said
    assert "it fails" in said
    assert not list(newcomer.project.evidence.rglob("*.json"))
