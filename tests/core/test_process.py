"""Processes: nothing leaks in, nothing survives."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from provision.core.errors import ToolError
from provision.core.process import clean_environment, describe_exit, dropped_variables, run

POLLUTANTS = {
    "PYTHONPATH": "/elsewhere", "PYTHONHOME": "/elsewhere", "PYTHONUSERBASE": "/elsewhere",
    "PYTHONSTARTUP": "/elsewhere/x.py", "PIP_TARGET": "/elsewhere", "PIP_PREFIX": "/elsewhere",
    "PIP_INDEX_URL": "http://localhost:1", "PIP_EXTRA_INDEX_URL": "http://localhost:1",
    "PIP_CONSTRAINT": "/elsewhere", "PIP_NO_DEPS": "1", "UV_INDEX": "http://localhost:1",
    "UV_OVERRIDE": "/elsewhere", "UV_PROJECT_ENVIRONMENT": "/elsewhere", "UV_SYSTEM_PYTHON": "1",
    "CONDA_PREFIX": "/elsewhere", "VIRTUAL_ENV": "/elsewhere", "LD_LIBRARY_PATH": "/elsewhere",
    "LD_PRELOAD": "/elsewhere/x.so", "ONEAPI_ROOT": "/opt/intel/oneapi", "SETVARS_COMPLETED": "1",
    "CMPLR_ROOT": "/opt/intel", "MKLROOT": "/opt/intel", "TORCH_DEVICE": "x",
}  # fmt: skip


@pytest.mark.parametrize("name", POLLUTANTS)
def test_a_pollutant_is_left_behind_and_named(name: str) -> None:
    base = {"HOME": "/home/u", "PATH": "/usr/bin", name: POLLUTANTS[name]}
    assert clean_environment(base) == {"HOME": "/home/u", "PATH": "/usr/bin"}
    assert dropped_variables(base) == [name]


def test_network_and_device_settings_are_kept_on_purpose() -> None:
    base = {"https_proxy": "http://proxy:3128", "SSL_CERT_FILE": "/ca", "CUDA_VISIBLE_DEVICES": "1"}
    assert base.items() <= clean_environment(base).items()
    assert dropped_variables(base) == []


@pytest.mark.parametrize(
    "name",
    [
        *("CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY"),
        *("ZE_FLAT_DEVICE_HIERARCHY", "ZE_ENABLE_PCI_ID_DEVICE_ORDER"),
    ],
)
def test_what_gives_a_selector_its_meaning_is_kept_with_it(name: str) -> None:
    base = {"CUDA_VISIBLE_DEVICES": "1", "ZE_AFFINITY_MASK": "1", name: "1"}
    assert base.items() <= clean_environment(base).items()


def test_the_compiler_of_the_machine_is_kept() -> None:
    base = {"CC": "/opt/gcc-14/bin/gcc", "INCLUDE": "/msvc/include", "ZE_PATH": "/opt/level-zero"}
    assert base.items() <= clean_environment(base).items()


def test_the_compiler_of_an_active_environment_is_not() -> None:
    active = {"CONDA_PREFIX": "/conda", "CC": "/conda/bin/cc"}
    include = os.pathsep.join(["/conda/Library/include", "/msvc/include"])
    kept = clean_environment(active | {"INCLUDE": include})
    assert (kept.get("CC"), kept["INCLUDE"]) == (None, "/msvc/include")


def test_pip_s_ca_bundle_reaches_uv() -> None:
    assert clean_environment({"PIP_CERT": "/ca.pem"})["SSL_CERT_FILE"] == "/ca.pem"


def test_programs_of_an_active_environment_are_off_the_path() -> None:
    path = os.pathsep.join(["/venv/bin", "/usr/bin", "/venv-other/bin", "/conda/condabin"])
    base = {"PATH": path, "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"}
    kept = clean_environment(base, prefix=Path("/new"))["PATH"].split(os.pathsep)
    assert kept[1:] == ["/usr/bin", "/venv-other/bin"]
    assert Path(kept[0]).parent == Path("/new")


def test_extra_wins() -> None:
    assert clean_environment({"LANG": "C"}, extra={"LANG": "C.UTF-8"})["LANG"] == "C.UTF-8"


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "exit code 3"), (-9, "signal SIGKILL"), (-99, "signal 99"), (0xC0000005, "0xc0000005")],
)
def test_exit_status_in_words(code: int, words: str) -> None:
    assert words in describe_exit(code)


@pytest.mark.machine
def test_output_and_input_pass() -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('e', file=sys.stderr); sys.exit(4)"
    done = run([sys.executable, "-c", code], stdin="é")
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (4, "É", "e")


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
def test_a_missing_program_is_named() -> None:
    with pytest.raises(ToolError, match="no-such-program"):
        run(["no-such-program"])
