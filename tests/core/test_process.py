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

POLLUTANTS = {
    "PYTHONPATH": "/elsewhere",
    "PYTHONHOME": "/elsewhere",
    "PYTHONUSERBASE": "/elsewhere",
    "PYTHONSTARTUP": "/elsewhere/x.py",
    "PIP_TARGET": "/elsewhere",
    "PIP_PREFIX": "/elsewhere",
    "PIP_INDEX_URL": "http://localhost:1",
    "PIP_EXTRA_INDEX_URL": "http://localhost:1",
    "PIP_CONSTRAINT": "/elsewhere",
    "PIP_NO_DEPS": "1",
    "UV_INDEX": "http://localhost:1",
    "UV_OVERRIDE": "/elsewhere",
    "UV_PROJECT_ENVIRONMENT": "/elsewhere",
    "UV_SYSTEM_PYTHON": "1",
    "CONDA_PREFIX": "/elsewhere",
    "VIRTUAL_ENV": "/elsewhere",
    "LD_LIBRARY_PATH": "/elsewhere",
    "LD_PRELOAD": "/elsewhere/x.so",
    "ONEAPI_ROOT": "/opt/intel/oneapi",
    "SETVARS_COMPLETED": "1",
    "CMPLR_ROOT": "/opt/intel",
    "MKLROOT": "/opt/intel",
    "CCL_ROOT": "/opt/intel",
    "FI_PROVIDER_PATH": "/opt/intel",
    "OCL_ICD_FILENAMES": "/x.so",
    "CPATH": "/elsewhere",
    "LIBRARY_PATH": "/elsewhere",
    "PYTHONPLATLIBDIR": "x",
    "PYTHONPYCACHEPREFIX": "/elsewhere",
    "PYTHONSAFEPATH": "1",
    "PYTHONOPTIMIZE": "2",
    "LD_AUDIT": "/elsewhere/x.so",
    "DYLD_INSERT_LIBRARIES": "/x",
    "_CE_CONDA": "x",
    "TORCH_EXTENSIONS_DIR": "/elsewhere",
    "PYTORCH_ENABLE_XPU_FALLBACK": "1",
    "PYTORCH_XPU_FALLBACK_OP": "mm",
    "PYTORCH_ENABLE_MPS_FALLBACK": "1",
}
USERS_OWN = (
    *(
        "HF_TOKEN",
        "HF_HOME",
        "WANDB_API_KEY",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "RANK",
    ),
    *(
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "SLURM_PROCID",
        "SLURM_JOB_ID",
    ),
    *("NCCL_DEBUG", "CCL_WORKER_COUNT", "CUDA_LAUNCH_BLOCKING", "CUDA_VISIBLE_DEVICES"),
    *(
        "ZE_AFFINITY_MASK",
        "ONEAPI_DEVICE_SELECTOR",
        "DISPLAY",
        "AWS_SECRET_ACCESS_KEY",
        "LC_ALL",
    ),
    *(
        "SSH_AUTH_SOCK",
        "TORCH_HOME",
        "TORCH_LOGS",
        "TORCH_NCCL_BLOCKING_WAIT",
        "TORCHELASTIC_X",
    ),
    *(
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTHONUNBUFFERED",
        "PYTHONHASHSEED",
        "IPEX_FP32_MATH_MODE",
    ),
    *("I_MPI_DEBUG", "FI_PROVIDER", "JUPYTER_TOKEN", "KMP_AFFINITY", "anything_else"),
)


@pytest.mark.parametrize("name", POLLUTANTS)
def test_a_pollutant_is_left_behind_and_named(name: str) -> None:
    base = {"HOME": "/home/u", "PATH": "/usr/bin", name: POLLUTANTS[name]}
    assert clean_environment(base) == {"HOME": "/home/u", "PATH": "/usr/bin"}
    passed, dropped = program_environment(base, Path("/env"), {}, keep=[])
    assert dropped == [name]
    assert passed.pop("PATH").split(os.pathsep)[1:] == ["/usr/bin"]
    assert passed == {"HOME": "/home/u", "PYTHONNOUSERSITE": "1"}


def test_network_and_device_settings_are_kept_on_purpose() -> None:
    base = {
        "https_proxy": "http://proxy:3128",
        "SSL_CERT_FILE": "/ca",
        "CUDA_VISIBLE_DEVICES": "1",
    }
    assert base.items() <= clean_environment(base).items()


@pytest.mark.parametrize("name", USERS_OWN)
def test_what_is_the_users_own_passes_to_a_program(name: str) -> None:
    base = {"PATH": "/usr/bin", name: "as set", "EMPTY": ""}
    passed, dropped = program_environment(base, Path("/env"), {}, keep=[])
    assert (passed[name], passed["EMPTY"], dropped) == ("as set", "", [])


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
    given = "x" * 2**20  # more than a pipe holds
    assert (
        run([sys.executable, "-c", code], stdin=given, timeout=60).stdout
        == f"{2**20}\n"
    )


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


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "SSL_CERT_FILE", "UV_HTTP_TIMEOUT"])
def test_how_this_machine_reaches_a_network_is_kept(name: str) -> None:
    assert clean_environment({name: "300"})[name] == "300"


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


@pytest.mark.machine
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("train it.py", "python 'train it.py'"),
        ("./train it.py", "python './train it.py'"),
        ("train", "./train"),
        ("./train", None),
        ("absent.py", None),
    ],
)
def test_a_script_that_is_here_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, meant: str | None
) -> None:
    (tmp_path / "train it.py").touch(0o644)
    (tmp_path / "train").touch(0o644)
    monkeypatch.chdir(tmp_path)
    starts = (
        lambda: process.become([typed], env={"PATH": os.defpath}),
        lambda: process.start([typed], merged=True),
    )
    for start in starts:
        with pytest.raises(UsageError, match="cannot start") as caught:
            start()
        assert (caught.value.remedy == f"did you mean `{meant}`?") == bool(meant)
