"""The command as a person meets it: words, exit codes, JSON."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.core.errors import Exit
from provision.host.model import Gpu, Host
from tests.small import TARGET, Index, lock, make_project, make_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provision.core.project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = make_project(tmp_path, Index(tmp_path, url="http://localhost:1"))
    lock(made, [make_wheel(tmp_path / "default", "alpha", "1.0", {"alpha.py": ""})])
    monkeypatch.chdir(tmp_path)
    return made


def call(*words: str) -> int:
    return main.main(words)


def test_an_unknown_target_suggests_the_nearest(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("build", "tinny") == Exit.USAGE
    assert "did you mean `tiny`?" in capsys.readouterr().err


def test_five_faults_of_a_spec_are_shown_with_code_2(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.specs / f"{TARGET}.toml").write_text(
        'sumary = "x"\naccelerator = "gpu"\nplatform = "linux"\npython = "311"\nstatus = "old"\n'
    )
    assert call("build", TARGET) == Exit.USAGE
    words = capsys.readouterr().err
    for place in (
        "sumary:",
        "accelerator:",
        "platform:",
        "python:",
        "status:",
        "summary:",
        "pip:",
    ):
        assert place in words


def test_a_stale_lock_is_refused(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.specs / f"{TARGET}.toml"
    path.write_text(path.read_text().replace("alpha", "alpha>=1"))
    assert call("build", TARGET) == Exit.USAGE
    words = capsys.readouterr().err
    assert "stale" in words
    assert f"provision lock {TARGET}" in words


def test_another_platform_s_target_is_not_built_here(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project.specs / f"{TARGET}.toml"
    other = "linux-64" if sys.platform == "win32" else "win-64"
    path.write_text(
        re.sub('platform = "[^"]+"', f'platform = "{other}"', path.read_text())
    )
    assert call("build", TARGET) == Exit.USAGE
    assert f"on a {other} machine" in capsys.readouterr().err


def test_a_missing_wheelhouse_is_a_usage_error(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("build", TARGET, "--wheelhouse", "nowhere") == Exit.USAGE
    assert "nowhere" in capsys.readouterr().err


def test_debug_shows_the_traceback(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("verify", TARGET, "--debug") == Exit.USAGE
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.count("tiny is not built") == 2


def test_no_project_is_not_needed_for_the_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("schema") == Exit.OK
    assert json.loads(capsys.readouterr().out)["$schema"].startswith(
        "https://json-schema.org"
    )


def test_without_a_word_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == Exit.USAGE
    shown = capsys.readouterr()
    assert "verify" in shown.out
    assert "error" not in shown.err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("biuld", "build"),
        ("tagrets --json", "targets"),
        ("build tiny --ofline", "--offline"),
        ("lock --jsn", "--json"),
        ("--projct=. lock", "--project"),
        ("--projct . lock", ""),  # argparse takes the folder for the verb
        ("build tiny --whelhouse x", "--wheelhouse"),
        ("export tiny --format pylok", "pylock"),
        ("lock --engine pip-tool", "pip-tools"),
        ("fleet repport .", "report"),
        ("zzz", ""),
        ("lock --ofline", ""),  # which it does not have
        ("smoke tiny --soak 3x", ""),
    ],
)
def test_what_was_meant_is_asked(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    assert call(*typed.split()) == Exit.USAGE
    told = capsys.readouterr().err
    assert (f"did you mean `{meant}`? See `" in told) == bool(meant)
    assert ("did you mean" in told) == bool(meant)
    assert "rollback" not in told  # twenty verbs are not read


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with serve(tmp_path / "index") as index:
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/default/")
        made = make_project(tmp_path, index)
        lock(
            made, [make_wheel(index.root / "default", "alpha", "1.0", {"alpha.py": ""})]
        )
        assert call("build", "auto") == Exit.OK
        yield made


@pytest.mark.machine
def test_build_auto_names_the_target_that_a_blocked_gpu_would_get(
    built: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = (built.specs / f"{TARGET}.toml").read_text().replace('"cpu"', '"xpu"')
    wish = spec.replace("[pip]", 'hardware.families = ["dg2"]\n[pip]', 1)
    (built.specs / "arc.toml").write_text(wish)
    card = Gpu(
        "intel", "56a0", "Arc A770", "0000:03:00.0", "dg2", supported=True, driver=None
    )
    monkeypatch.setattr(
        "provision.commands.machine.read_host",
        lambda _, **_options: Host("linux-64", "6.8", gpus=(card,)),
    )
    assert call("build", "auto") == Exit.OK
    told = capfd.readouterr()
    assert f"{TARGET} is up to date" in told.out
    assert "arc fits this machine better; the kernel has Intel's driver" in told.err


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ("epoch 1 loss 0.3\n", Exit.OK),
        ("ImportError: libGL.so.1: cannot open shared object file\n", Exit.FINDINGS),
        ("  File \"/w/a.py\", line 3, in f\nKeyError: 'labels'\n", Exit.PROGRAM),
        ("RuntimeError: engine refused to start\n", Exit.UNDECIDED),
        (
            "RuntimeError: CUDA error: an illegal memory access was encountered\n",
            Exit.UNDECIDED,
        ),
    ],
)
def test_the_exit_code_of_a_log_tells_the_answers_apart(
    log: str, code: Exit, project: Project, tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log)
    assert call("doctor", "--log", str(path)) == code


@pytest.mark.machine
def test_a_log_is_judged_together_with_its_environment(
    built: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("RuntimeError: engine refused to start\n")
    assert call("doctor", "--log", str(path), "--target", TARGET) == Exit.UNDECIDED
    (module,) = (built.environments(TARGET) / "current").resolve().rglob("alpha.py")
    module.unlink()
    capsys.readouterr()
    assert (
        call("doctor", "--log", str(path), "--target", TARGET, "--report")
        == Exit.FINDINGS
    )
    told = capsys.readouterr().out
    assert told.index("alpha.py") < told.index("[not-recognised]")
    assert "Python: 3." in told


@pytest.mark.machine
def test_a_log_of_an_edited_file_leads_to_the_verb_that_names_the_file(
    built: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = (built.environments(TARGET) / "current").resolve()
    (module,) = folder.rglob("alpha.py")
    module.unlink()  # it shares its content with uv's cache
    module.write_text("broken\n")
    program = [folder / "bin" / "python", "-c", "import alpha"]
    failed = subprocess.run(program, check=False, text=True, capture_output=True)
    path = tmp_path / "log.txt"
    path.write_text(failed.stderr)
    assert "NameError: name 'broken' is not defined" in path.read_text()

    assert call("doctor", "--log", str(path)) == Exit.UNDECIDED
    told = capsys.readouterr().out
    (command,) = re.findall(r"Run `\S*provision ([^`]+)` first", told)
    assert call(*command.split()) == Exit.FINDINGS
    assert "alpha.py" in capsys.readouterr().out
    assert call("doctor", "--target", TARGET) == Exit.FINDINGS
    assert "[changed-file]" in capsys.readouterr().out
    assert call("doctor", "--python", str(folder)) == Exit.OK
    assert "alpha" not in capsys.readouterr().out


def test_a_log_that_is_no_text_is_refused(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.gz"
    for data in (gzip.compress(b"RuntimeError: x\n" * 99), bytes(range(256)) * 40):
        path.write_bytes(data)
        assert call("doctor", "--log", str(path)) == Exit.USAGE
        assert f"{path} is no text" in " ".join(capsys.readouterr().err.split())


def test_a_report_of_a_repository_has_its_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pins = "torch==2.4.0\ntorchvision==0.17.0\n"
    (tmp_path / "requirements.txt").write_text(pins, "utf-8")
    words = ["doctor", "--project", str(tmp_path)]
    assert main.main(words) == Exit.FINDINGS
    capsys.readouterr()
    assert main.main([*words, "--report"]) == Exit.FINDINGS
    assert "torchvision 0.17.0 is for torch 2.2" in capsys.readouterr().out


def test_doctor_without_the_log_or_the_environment_is_a_usage_error(
    project: Project,
) -> None:
    assert call("doctor", "--log", "nowhere.log") == Exit.USAGE
    assert call("doctor", "--log", "") == Exit.USAGE
    assert call("doctor", "--python", "nowhere/python") == Exit.USAGE
    assert call("doctor", "--target", TARGET) == Exit.USAGE
