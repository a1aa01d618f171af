"""What a device or a machine may lack: absences that are documented, and none that is a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.core.process import clean_environment, run

SCRIPT = Path(__file__).with_name("stand_ins.py")
pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def said(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer in each case of the script."""
    out = tmp_path_factory.mktemp("capabilities") / "answers.json"
    done = run([python, "-I", SCRIPT, out], env=clean_environment(), timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answers


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("float64_is_there", ""),
        ("float64_is_emulated", ""),
        (
            "float64_is_refused_by_sycl",
            "the device has no float64: Required aspect fp64",
        ),
        (
            "float64_does_not_come_to_a_mac",
            "the device has no float64: Cannot convert a MPS",
        ),
        (
            "float64_is_refused_by_ipex_2_1_10",
            "the device has no float64: FP64 data type",
        ),
        (
            "float64_is_refused_by_a_device_that_says_nothing_of_it",
            "the device has no float64: er",
        ),
        ("collectives_of_cuda_on_linux", ""),
        ("collectives_of_the_cpu", ""),
        (
            "collectives_of_a_mac",
            "this torch is built without a collective back end for mps",
        ),
        (
            "collectives_of_cuda_on_windows",
            "this torch is built without a collective back end",
        ),
        (
            "collectives_of_xpu_on_windows",
            "this torch is built without a collective back end",
        ),
        (
            "collectives_of_xpu_with_torch_2_1",
            "this torch is built without a collective back end",
        ),
        ("a_compiler_that_does_not_exist", "the compiler does not run: "),
        ("a_compiler_that_fails", "false fails: "),
    ],
)
def test_a_capability_is_there_or_its_absence_has_a_reason(
    said: dict[str, Any], case: str, reason: str
) -> None:
    assert said[case].startswith(reason)
    assert bool(said[case]) == bool(reason)


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        # The property promises it, so the check is owed, and fails.
        ("float64_is_promised_and_refused", ""),
        ("float64_meets_another_error", "raised UR_RESULT_ERROR_DEVICE_LOST"),
        ("collectives_of_a_torch_without_the_package", ""),
    ],
)
def test_a_fault_excuses_nothing(said: dict[str, Any], case: str, answer: str) -> None:
    assert said[case] == answer


def test_only_devices_of_one_model_sum_together(said: dict[str, Any]) -> None:
    assert said["ranks_beside_another_model"] == [0, 2]


def test_without_a_compiler_the_reason_names_its_language(said: dict[str, Any]) -> None:
    assert said["no_compiler"] == ["no C++ compiler", "no C compiler"]


def test_a_compiler_is_tried(said: dict[str, Any]) -> None:
    if not said["here_is_a_compiler"]:
        pytest.skip("this machine has no gcc and g++")
    assert said["a_compiler_for_the_cpu"] == said["a_compiler_for_cuda"] == ""
    assert "Python.h" in said["a_python_without_headers"]
    assert said["xpu_with_level_zero"] == ""
    assert "level_zero/ze_api.h" in said["xpu_without_the_header"]
    assert "ze_loader_that_is_not_here" in said["xpu_without_the_loader"]


def test_cl_needs_the_variables_of_visual_studio(said: dict[str, Any]) -> None:
    prompt = "start from a Developer Command Prompt"
    assert said["windows_prompts"] == [
        f"cl.exe is not on PATH: {prompt}",
        f"INCLUDE and LIB not set: {prompt}",
        f"INCLUDE not set: {prompt}",
        "",
    ]
    assert said["windows_command_line"] == [
        r"C:\Program Files\MSVC\cl.exe",
        "/nologo",
        "a.cpp",
        "/LD",
        "/II",
        "/link",
        "/LIBPATH:L",
        "ze_loader.lib",
    ]


def test_triton_leaves_old_gpus_out(said: dict[str, Any]) -> None:
    old, new = said["triton_on_old_and_new_gpus"]
    assert ("7.0" in old, new) == (True, "")


def test_a_cpu_in_windows_has_its_own_name(said: dict[str, Any]) -> None:
    assert said["the_name_of_a_cpu_in_windows"] == [
        "Intel(R) Core(TM) Ultra 7 155H",
        "Intel64 Family 6 Model 170",
    ]


def test_the_far_limit_of_xpu_is_what_opencl_allows_pow(said: dict[str, Any]) -> None:
    cpu, cuda, xpu = said["far_limits"]
    assert cpu == cuda == 5e-3
    # 19 ulp of 10,365 rad; the coarse sine that a fault makes is wrong by 0.1.
    assert xpu == pytest.approx(19 * 32768 / 10000**0.125 * 2**-23)
    assert xpu < 0.03


def test_memory_is_pinned_for_the_device(said: dict[str, Any]) -> None:
    assert said["pinning_in_torch_2_1"] == [None, "pretend"]


def test_the_number_of_a_device_is_used_where_it_means_the_device(
    said: dict[str, Any],
) -> None:
    assert said["numbers_of_devices"] == [False, True, True, False]
