"""Every check fails under its fault, with its own finding, and passes in healthy states.

`tests` tries the failures that the mission names and one fault of each class of lost operators and
of numbers that are known to be wrong; `nox -s profiles` tries every fault, and those two classes on
each kind of device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.process import clean_environment, run
from tests.smoke import profiles
from tests.smoke.conftest import CORES, failures, prove
from tests.smoke.faults import FAULTS, Fault, check_ids

if TYPE_CHECKING:
    from tests.smoke.conftest import Job, Play, Results

BY_NAME = {fault.name: fault for fault in FAULTS}
INJECTED = [fault for fault in FAULTS if fault.world in ("cpu", "pretend")]
# The failures that the mission names, one where nothing is wrong, and the CPU in secret.
ALONE = (
    "ipex_in_a_cuda_environment",
    "another_device_answers_first",
    "a_fusion_pass_puts_mul_add_on_cpu_tensors",
    "available_and_every_operation_fails",
    "the_firmware_of_the_card_is_damaged",
    "a_container_has_no_library_of_the_driver",
    "mul_add_has_a_kernel_for_another_device",
    "mul_add_is_registered_and_right",
    "optimizer_state_stays_on_the_cpu",
    "a_tied_weight_is_filed_under_another_name",
    "the_device_is_no_faster_than_the_cpu",
    "the_cpu_computes_a_product",
    "a_product_of_512_in_float16_is_not_a_number",
    "each_row_of_attention_is_excused_and_nothing_compared",
)
# At once, each in another check: what each device offers is lost, and numbers are wrong.
TOGETHER = (
    "bmm_is_lost",
    "convolution_is_lost",
    "mm_is_lost_in_half_types",
    "a_mask_of_600_keeps_half_of_its_elements_in_every_third_call",
    "the_largest_of_4096_are_others",
    "a_softmax_of_1025_is_wrong_at_its_end",
    "sums_are_not_a_number_after_a_chain",
)
LOST = [fault.name for fault in FAULTS if "_is_lost" in fault.name]
ON_CPU = [
    fault.name
    for fault in FAULTS
    if fault.code == "operator-on-cpu" and not fault.children
]
UNREAD = [fault.name for fault in FAULTS if "_nobody_read" in fault.name]
KNOWN_WRONG = [fault.name for fault in FAULTS if fault.check.startswith("known-wrong.")]
# Target and device of each kind; of Intel's two families.
XPU, CUDA, MPS = (
    ("arc-linux", "arc-b580-linux"),
    ("cuda-linux", "h100-linux"),
    ("mps-macos", "apple-mps"),
)
PVC = ("max-linux", "max-1550-linux-flat")
# A card without float64 for the healthy state.
HEALTHY = ("arc-linux", "arc-a770-linux")

# What the capabilities say of other machines, see `stand_ins.py`.
STAND_INS: Job = {"name": "stand-ins", "world": "stand-ins", "faults": []}


def alone(fault: Fault) -> Job:
    return {"name": fault.name, "world": fault.world, "faults": [fault.name]}


def on_device(pair: tuple[str, str], base: dict[str, Any], *faults: str) -> Job:
    world = profiles.world(pair[0], profiles.profiles()[pair[1]], base)
    name = f"{' '.join(faults)} on {world['name']}"
    return {"name": name, "world": world, "faults": list(faults)}


def judge(jobs: list[Job], results: Results) -> None:
    """Fail unless each fault is found by its check, with its code, and nothing else is."""
    wrong = {}
    for job in jobs:
        faults = [BY_NAME[name] for name in job["faults"]]
        expected = sorted((fault.check, fault.code) for fault in faults if fault.code)
        found = sorted(failures(results[job["name"]]["results"]))
        if found != expected:
            wrong[job["name"]] = (found, expected)
    assert wrong == {}, json.dumps(wrong, indent=1)


@pytest.fixture(scope="module")
def jobs(base: dict[str, Any]) -> list[Job]:
    """What `tests` tries, in one process: most of the time goes into imports."""
    jobs = [alone(BY_NAME[name]) for name in ALONE]
    return [STAND_INS, *jobs, on_device(XPU, base, *TOGETHER), on_device(HEALTHY, base)]


@pytest.fixture(scope="module")
def played(play: Play, jobs: list[Job]) -> Results:
    return play(jobs)


@pytest.mark.machine
def test_what_the_mission_names_and_each_class_of_loss_is_found(
    jobs: list[Job], played: Results
) -> None:
    judge(jobs[1:-1], played)


@pytest.mark.machine
def test_an_absence_has_a_reason_and_a_fault_excuses_nothing(played: Results) -> None:
    """What a device or a machine may lack: absences that are documented, and none that is a fault."""
    assert played["stand-ins"] == {"wrong": {}}


@pytest.mark.machine
def test_a_healthy_device_passes(jobs: list[Job], played: Results) -> None:
    *_, healthy = jobs
    reported = played[healthy["name"]]
    prove(healthy["world"], reported)
    (ready,) = [each for each in reported["results"] if each["id"] == "device.ready"]
    units = {name: number["unit"] for name, number in ready["numbers"].items()}
    # By these names `provision/report/measures.py` finds what is lost.
    assert units.items() >= {"memory": "GiB", "count": "count"}.items()


@pytest.fixture(scope="module")
def results(play: Play) -> Results:
    """What the check of every fault reported."""
    jobs = [alone(fault) for fault in INJECTED]
    on_cpu = [job for job in jobs if job["world"] == "cpu"]
    others = [job for job in jobs if job["world"] != "cpu"]
    # Apart: with the first gradient, torch counts the devices that can have some.
    return play(on_cpu, CORES) | play(others, CORES)


@pytest.mark.machine
@pytest.mark.profiles
def test_the_check_of_each_fault_finds_it(results: Results) -> None:
    judge([alone(fault) for fault in INJECTED], results)
    (listed,) = results["the_cpu_computes_what_torch_leaves_to_it"]["results"]
    assert listed["on_cpu"] == ["linalg_qr.out"]


# Speed and noise are told, and what is unknown is no fault: none of them stops a build or a proof.
WARNINGS = {
    "cpu-fallback-enabled",
    "slow",
    "unknown-warning",
    "driver-unknown",
    "device-unknown",
    "row-remap-pending",
    "xid-of-a-program",
}


@pytest.mark.machine
@pytest.mark.profiles
def test_only_speed_noise_and_the_unknown_are_warnings(results: Results) -> None:
    by_outcome: dict[str, set[str]] = {"warned": set(), "failed": set()}
    for reported in results.values():
        for check in reported["results"]:
            if check["finding"] and check["finding"]["level"] != "note":
                by_outcome[check["outcome"]].add(check["finding"]["code"])
    assert by_outcome["warned"] == WARNINGS
    assert by_outcome["failed"].isdisjoint(WARNINGS)


@pytest.mark.machine
@pytest.mark.profiles
def test_a_loss_is_found_on_each_kind_of_device_and_known_wrong_numbers_on_two_families(
    play: Play, base: dict[str, Any]
) -> None:
    jobs = [on_device(pair, base, name) for pair in (XPU, CUDA, MPS) for name in LOST]
    jobs += [on_device(pair, base, name) for pair in (XPU, PVC) for name in KNOWN_WRONG]
    jobs += [on_device(XPU, base, name) for name in ON_CPU]
    judge(jobs, play(jobs, CORES))


@pytest.mark.machine
@pytest.mark.profiles
def test_what_no_list_tells_is_neither_proven_nor_failed(
    play: Play, base: dict[str, Any]
) -> None:
    """Torch has no list of its releases for MPS, and nobody has read the newest torch."""
    pairs = [(MPS, name) for name in ON_CPU] + [(XPU, name) for name in UNREAD]
    jobs = [on_device(pair, base, name) for pair, name in pairs]
    results = play(jobs, CORES)
    for job in jobs:
        reported = results[job["name"]]
        assert reported["results"] == [], job["name"]
        required = {entry["id"] for entry in reported["not_run"] if entry["required"]}
        assert required == {BY_NAME[job["faults"][0]].check}, job["name"]


# Each program needs them in each type: torch's table may not excuse their loss.
BASIC = (
    "add mul div sub exp log sum mean softmax log_softmax layer_norm relu gelu embedding gather "
    "index_select cat sort topk cumsum where max_pool2d cross_entropy"
)
LACKING = f"""
import json, sys
sys.path.append({str(Path(__file__).parents[2])!r})
from smoke.reference import offered
print(json.dumps({{kind: offered.lacking(kind) for kind in offered.RELEASES}}))
"""


@pytest.mark.machine
@pytest.mark.profiles
def test_no_table_excuses_the_loss_of_what_each_program_needs(python: Path) -> None:
    done = run([python, "-I", "-c", LACKING], env=clean_environment(), timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    for kind, lacking in json.loads(done.stdout).items():
        assert len(lacking) > 50, kind
        excused = {name: lacking[name] for name in BASIC.split() if name in lacking}
        assert not excused, (kind, excused)


def test_every_check_has_a_fault_with_a_finding() -> None:
    aimed = {fault.check.partition("@")[0] for fault in FAULTS if fault.code}
    assert aimed == check_ids()
