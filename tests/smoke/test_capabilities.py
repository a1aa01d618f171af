"""What a device or a machine may lack: absences that are documented, and none that is a fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.core.process import clean_environment, run

SCRIPT = Path(__file__).with_name("stand_ins.py")
pytestmark = pytest.mark.machine
NO_FLOAT64 = "the device has no float64: "
NO_COLLECTIVES = "this torch is built without a collective back end for "
# Case of the script -> words of its answer; "" where nothing is lacking.
ANSWERS = {
    "float64_is_refused_by_sycl": NO_FLOAT64 + "Required aspect fp64",
    "float64_does_not_come_to_a_mac": NO_FLOAT64 + "Cannot convert a MPS",
    "float64_is_refused_by_ipex_2_1_10": NO_FLOAT64 + "FP64 data type",
    "float64_is_emulated": "",
    # The property promises it, so the check is owed, and fails.
    "float64_is_promised_and_refused": "",
    "float64_meets_another_error": "raised UR_RESULT_ERROR_DEVICE_LOST",
    "collectives_of_cuda_on_linux": "",
    "collectives_of_cuda_on_windows": NO_COLLECTIVES + "cuda",
    "collectives_of_xpu_with_torch_2_1": NO_COLLECTIVES + "xpu",
    "collectives_of_a_mac": NO_COLLECTIVES + "mps",
    "collectives_of_a_torch_without_the_package": "",
    "no_compiler": "no C++ compiler",
    "a_compiler_that_does_not_exist": "the compiler does not run: ",
    "a_compiler_that_fails": "false fails: ",
    "cl_without_a_developer_prompt": "INCLUDE and LIB not set: start from a Developer",
    "triton_on_an_old_gpu": "Triton needs compute capability 7.0",
}
# The same, where there is a compiler.
COMPILED = {
    "a_compiler_for_the_cpu": "",
    "xpu_with_level_zero": "",
    "xpu_without_the_header": "level_zero/ze_api.h",
}


@pytest.fixture(scope="module")
def said(python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answer in each case of the script."""
    out = tmp_path_factory.mktemp("capabilities") / "answers.json"
    done = run([python, "-I", SCRIPT, out], env=clean_environment(), timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return answers


def test_an_absence_has_a_reason_and_a_fault_excuses_nothing(
    said: dict[str, Any],
) -> None:
    expected = ANSWERS | (COMPILED if said["here_is_a_compiler"] else {})
    for case, words in expected.items():
        assert words in said[case], case
        assert bool(said[case]) == bool(words), case


def test_only_devices_of_one_model_sum_together(said: dict[str, Any]) -> None:
    assert said["ranks_beside_another_model"] == [0, 2]


def test_the_command_line_of_windows_keeps_spaces(said: dict[str, Any]) -> None:
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


def test_the_far_limit_of_xpu_is_what_opencl_allows_pow(said: dict[str, Any]) -> None:
    # 19 ulp of 10,365 rad; the coarse sine that a fault makes is wrong by 0.1.
    assert said["far_limit_of_xpu"] == pytest.approx(19 * 32768 / 10000**0.125 * 2**-23)


def test_memory_is_pinned_for_the_device(said: dict[str, Any]) -> None:
    assert said["pinning_in_torch_2_1"] == [None, "pretend"]


def test_the_number_of_a_device_is_used_where_it_means_the_device(
    said: dict[str, Any],
) -> None:
    assert said["numbers_of_devices"] == [False, True]
