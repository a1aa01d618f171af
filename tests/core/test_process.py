"""Processes: nothing leaks in, nothing survives."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from provision.core import interruption, process
from provision.core.errors import ToolError, UsageError
from provision.core.process import clean_environment, run
from provision.core.variables import program_environment

# One for each prefix and each group of core/variables.toml and core/platforms.toml.
POLLUTANTS = [
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PIP_INDEX_URL",
    "UV_INDEX",
    "CONDA_PREFIX",
    "_CE_CONDA",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "DYLD_INSERT_LIBRARIES",
    "SETVARS_COMPLETED",
    "OCL_ICD_FILENAMES",
    "ONEAPI_ROOT",
    "FI_PROVIDER_PATH",
    "CPATH",
    "TORCH_EXTENSIONS_DIR",
    "PYTORCH_ENABLE_XPU_FALLBACK",
    "PYTORCH_ENABLE_MPS_FALLBACK",
]
# Near to the names above, or needed by training.
USERS_OWN = [
    "HF_TOKEN",
    "OMP_NUM_THREADS",
    "MASTER_ADDR",
    "SLURM_JOB_ID",
    "CCL_WORKER_COUNT",
    "CUDA_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "TORCH_HOME",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTHONUNBUFFERED",
    "PYTHONHASHSEED",
    "FI_PROVIDER",
    "anything_else",
]


def test_a_pollutant_is_left_behind_and_named() -> None:
    plain = {"HOME": "/home/u", "PATH": "/usr/bin"}
    for name in POLLUTANTS:
        base = {**plain, name: "/elsewhere"}
        assert clean_environment(base) == plain
        passed, dropped = program_environment(base, Path("/env"), {}, keep=[])
        assert dropped == [name]
        assert passed.pop("PATH").split(os.pathsep)[1:] == ["/usr/bin"]
        assert passed == {"HOME": "/home/u", "PYTHONNOUSERSITE": "1"}


def test_network_and_device_settings_are_kept_on_purpose() -> None:
    names = ("https_proxy", "SSL_CERT_FILE", "UV_HTTP_TIMEOUT", "CUDA_VISIBLE_DEVICES")
    base = dict.fromkeys(names, "1")
    assert base.items() <= clean_environment(base).items()


def test_what_is_the_users_own_passes_to_a_program() -> None:
    base = {"PATH": "/usr/bin", "EMPTY": "", **dict.fromkeys(USERS_OWN, "as set")}
    passed, dropped = program_environment(base, Path("/env"), {}, keep=[])
    assert passed.items() >= {**base, "PATH": passed["PATH"]}.items()
    assert dropped == []


def test_a_dropped_variable_is_brought_back_by_its_name() -> None:
    base = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/driver", "LD_PRELOAD": "/x.so"}
    passed, dropped = program_environment(
        base, Path("/env"), {}, keep=["LD_LIBRARY_PATH"]
    )
    assert (passed["LD_LIBRARY_PATH"], dropped) == ("/driver", ["LD_PRELOAD"])


def test_the_spec_wins_over_the_caller_which_is_said_and_env_over_the_spec() -> None:
    base, spec = (
        {"PATH": "/usr/bin", "SYCL_X": "0", "SAME": "1"},
        {"SYCL_X": "1", "SAME": "1"},
    )
    passed, dropped = program_environment(base, Path("/env"), spec, keep=[])
    assert (passed["SYCL_X"], dropped) == ("1", ["SYCL_X"])
    passed, dropped = program_environment(
        base, Path("/env"), spec, keep=["SYCL_X", "NOT_SET"]
    )
    assert (passed["SYCL_X"], dropped) == ("0", [])
    assert program_environment({}, Path("/env"), spec, keep=["SAME"])[0]["SAME"] == "1"


def test_attack_a_path_that_path_cannot_name() -> None:
    prefix = Path(f"/project{os.pathsep}s/.envs/t/g")
    with pytest.raises(UsageError, match="no program can be run from"):
        program_environment({"PATH": "/usr/bin"}, prefix, {}, keep=[])
    with pytest.raises(UsageError, match="no program can be run from"):
        clean_environment({"PATH": "/usr/bin"}, prefix=prefix)


@pytest.mark.machine
def test_a_program_that_reads_late_gets_all_of_its_input() -> None:
    code = "import sys, time; time.sleep(0.5); print(len(sys.stdin.read()))"
    text = "x" * 2**20  # more than a pipe holds
    done = run([sys.executable, "-c", code], stdin=text, timeout=60)
    assert done.stdout == f"{2**20}\n"


def test_nothing_is_started_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        interruption, "_interrupted", False
    )  # and so again after the test
    process.interrupt()
    with pytest.raises(KeyboardInterrupt):
        run(["never started"])


def test_the_compiler_of_an_active_environment_is_not() -> None:
    active = {"CONDA_PREFIX": "/conda", "CC": "/conda/bin/cc"}
    include = os.pathsep.join(["/conda/Library/include", "/msvc/include"])
    kept = clean_environment(active | {"INCLUDE": include})
    assert (kept.get("CC"), kept["INCLUDE"]) == (None, "/msvc/include")


def test_programs_of_an_active_environment_are_off_the_path() -> None:
    path = os.pathsep.join(
        ["/venv/bin", "/usr/bin", "/venv-other/bin", "/conda/condabin"]
    )
    base = {"PATH": path, "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"}
    kept = clean_environment(base, prefix=Path("/new"))["PATH"].split(os.pathsep)
    assert kept[1:] == ["/usr/bin", "/venv-other/bin"]
    assert Path(kept[0]).parent == Path("/new")


@pytest.mark.machine
def test_failure_shows_the_last_lines_and_the_command() -> None:
    done = run([sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(ToolError, match="could not do it") as caught:
        done.require("could not do it", remedy="try harder")
    assert caught.value.evidence == "no such thing"
    assert "exit code 1" in caught.value.cause


@pytest.mark.machine
def test_a_timeout_kills_the_children_too(tmp_path: Path) -> None:
    child = "import time, pathlib; time.sleep(1.5); pathlib.Path('alive').touch()"
    start = f"subprocess.Popen([sys.executable, '-c', {child!r}])"
    parent = f"import subprocess, sys, time; {start}; time.sleep(60)"
    with pytest.raises(ToolError, match=r"did not end within 0\.7 s"):
        run([sys.executable, "-c", parent], cwd=tmp_path, timeout=0.7)
    time.sleep(1.5)
    assert not (tmp_path / "alive").exists()


@pytest.mark.parametrize(
    ("typed", "remedy"),
    [
        ("./train it.py", "did you mean `python './train it.py'`?"),
        ("absent", "check its name, its permissions and its first line"),
    ],
)
def test_what_cannot_be_started_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, remedy: str
) -> None:
    (tmp_path / "train it.py").touch(0o644)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cannot start") as caught:
        process.become([typed], env={"PATH": os.defpath})
    assert caught.value.remedy == remedy
