"""Healthy devices pass: every target on every device that it is for, and on devices in no list.

The devices are profiles that the pretend accelerator plays; see `profiles.toml` for what they are
made of. Which checks a device may leave out follows from what its profile lacks, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.smoke import profiles
from tests.smoke.conftest import failures
from tests.smoke.faults import DEEP, FAULTS, Fault, left_out

if TYPE_CHECKING:
    from collections.abc import Callable

World = dict[str, Any]
Results = dict[str, dict[str, Any]]

# What `tests` plays; `nox -s profiles` plays all. They differ most: no float64; IPEX, an unknown
# driver, no compiler, kernels compiled at first use; two tiles; a Mac.
FAST = [
    ("arc-linux", "arc-a770-linux"),
    ("ipex-llm-windows", "arc-a380-windows"),
    ("max-linux", "max-1550-linux-flat"),
    ("mps-macos", "apple-mps"),
]
FAST_INVENTED = ["an Arc in no list"]
# A healthy device may be unknown to the lists, its driver too; the pretend one is a CPU's speed.
WARNINGS = {"device-unknown", "driver-unknown", "unknown-warning", "slow"}
FOR_NO_TARGET = {"uhd770-beside-arc-linux"}


@pytest.fixture(scope="session")
def base(sound: Path) -> dict[str, Any]:
    """An expectation that the test environment meets."""
    found: dict[str, Any] = json.loads(sound.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="session")
def play(
    harness: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[list[World]], Results]:
    """Play worlds in as many processes as there are cores; return what each found, by its name."""

    def start(wanted: list[World]) -> Results:
        folder = tmp_path_factory.mktemp("worlds")
        names = sorted(world["name"] for world in wanted)
        # The longest first, so that the processes, which share them out, end together.
        wanted = sorted(wanted, key=lambda each: ("only" in each, not each.get("deep")))
        file = folder / "worlds.json"
        file.write_text(json.dumps(wanted), encoding="utf-8")

        def run(part: int) -> Results:
            out = folder / f"{part}.json"
            harness("--worlds", file, out)
            found: Results = json.loads(out.read_text(encoding="utf-8"))
            return found

        cores = min(len(wanted), len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(cores) as pool:
            parts = list(pool.map(run, range(cores)))
        found = {name: result for part in parts for name, result in part.items()}
        assert sorted(found) == names
        return found

    return start


def judge(played: World, found: dict[str, Any]) -> None:
    """Fail unless the device is proven: nothing failed, and all that it can run was run."""
    failed = [each for each in found["results"] if each["outcome"] == "failed"]
    assert failures(failed) == [], [
        (e["id"], e["finding"]["symptom"], e["finding"]["evidence"]) for e in failed
    ]
    warned = {each["finding"]["code"] for each in found["results"] if each["finding"]}
    assert warned <= WARNINGS
    assert len(found["results"]) > 20
    not_owed = profiles.not_owed(played)
    left = left_out(played)
    excused = profiles.lacking(played) - not_owed - left
    assert {entry["id"] for entry in found["excused"]} == excused, found["excused"]
    not_run = {entry["id"] for entry in found["not_run"]}
    assert not_run == excused | not_owed | left, found["not_run"]
    assert all(entry["reason"] and not entry["owed"] for entry in found["not_run"])


# The data -----------------------------------------------------------------------------------------


def test_every_value_that_counts_as_seen_has_a_source() -> None:
    found = profiles.profiles()
    assert len(found) == 39
    for profile in found.values():
        for key in profile.seen:
            assert profile.sources[key], (profile.id, key)
        assert not set(profile.seen) & set(profile.inferred), profile.id
    texts = profiles.document()["texts"]
    assert set(texts) == {*texts["sources"], "sources"}


def test_every_profile_is_for_a_target_or_named_as_for_none() -> None:
    pairs = profiles.pairs()
    assert {profile for _target, profile in pairs} == set(
        profiles.profiles()
    ) - FOR_NO_TARGET
    assert {target for target, _profile in pairs} == set(profiles.targets())


@pytest.mark.parametrize(
    ("release", "present", "absent"),
    [
        (
            [2, 1],
            {"dev_type", "support_fp64"},
            {"driver_version", "device_id", "has_fp64", "type"},
        ),
        ([2, 8], {"driver_version", "has_fp64"}, {"device_id", "uuid"}),
        ([2, 9], {"driver_version", "device_id"}, {"is_integrated_gpu"}),
        ([2, 13], {"is_integrated_gpu"}, set()),
    ],
)
def test_the_properties_are_those_of_the_release(
    release: list[int], present: set[str], absent: set[str]
) -> None:
    fields = set(profiles.fields("xpu", release))
    assert present <= fields
    assert not absent & fields


# The pretend device itself ------------------------------------------------------------------------

TRAITS = re.findall(
    r"^def (trait_\w+)",
    Path(__file__).with_name("traits.py").read_text(encoding="utf-8"),
    re.M,
)


@pytest.fixture(scope="module")
def traits(
    harness: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What each trait found."""
    out = tmp_path_factory.mktemp("traits") / "out.json"
    harness("--traits", out)
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.machine
@pytest.mark.parametrize("trait", TRAITS)
def test_the_pretend_device_plays(traits: dict[str, str | None], trait: str) -> None:
    assert traits[trait] is None, traits[trait]


# Healthy devices ----------------------------------------------------------------------------------


# A card without float64 and one with two tiles, on two systems, CUDA, and a Mac.
FAULTY = [
    ("arc-linux", "arc-a770-linux"),
    ("cuda-linux", "h100-linux"),
    ("max-linux", "max-1550-linux-flat"),
    ("mps-macos", "apple-mps"),
]
# Which part of the long tables of operators these two play, which offer all that the CPU does.
ROWS = {"cuda-linux": (1, 4), "max-linux": (3, 4)}


def worlds_of(
    pairs: list[tuple[str, str]], base: dict[str, Any], *, deep: bool
) -> list[World]:
    """Return the world of each pair; where it is asked for, some run the checks of `DEEP`, too."""
    known = profiles.profiles()
    return [
        {
            **profiles.world(pair[0], known[pair[1]], base),
            "deep": deep and pair in FAULTY,
            "rows": ROWS.get(pair[0], (0, 1)),
        }
        for pair in pairs
    ]


@pytest.fixture(scope="module")
def fast(play: Callable[..., Results], base: dict[str, Any]) -> Results:
    """What the few pairs and the first invented device found."""
    few = [world for world in invented(base) if world["name"] in FAST_INVENTED]
    return play([*worlds_of(FAST, base, deep=False), *few])


@pytest.fixture(scope="module")
def every(play: Callable[..., Results], base: dict[str, Any]) -> Results:
    """What was found in every world: together, as each play imports torch several times."""
    sound = [
        *worlds_of(profiles.pairs(), base, deep=True),
        *invented(base),
        *second(base),
    ]
    faults = [world for pair in FAULTY for world in faulty(pair, base)]
    return play([*sound, *faults, *unhealthy(base)])


@pytest.mark.machine
@pytest.mark.parametrize("pair", FAST, ids=" on ".join)
def test_a_healthy_device_passes(
    fast: Results, base: dict[str, Any], pair: tuple[str, str]
) -> None:
    (played,) = worlds_of([pair], base, deep=False)
    judge(played, fast[played["name"]])


@pytest.mark.profiles
@pytest.mark.parametrize("pair", profiles.pairs(), ids=" on ".join)
def test_every_healthy_device_passes(
    every: Results, base: dict[str, Any], pair: tuple[str, str]
) -> None:
    (played,) = worlds_of([pair], base, deep=True)
    judge(played, every[played["name"]])


# Healthy devices that are in no list --------------------------------------------------------------

NEW_ARC = {
    "name": "Intel(R) Arc(TM) C990 Graphics",
    "id": 0xFFF1,
    "driver": "1.99.99999+7",
    "memory": 40001 * 2**20,
    "prints": ["[Info] a line that no list has"],
}
INVENTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an Arc in no list": ("arc-linux", "arc-b580-linux", NEW_ARC),
    "an Arc without any float64": ("arc-linux", "arc-b580-linux", {"fp64": "none"}),
    "an Arc without a name": (
        "arc-windows",
        "lnl-140v-windows",
        {"name": "Intel(R) Graphics"},
    ),
    "a slice of an A100": (
        "cuda-linux",
        "a100-linux",
        {"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory": 4864 * 2**20},
    ),
    "a GeForce of tomorrow": (
        "cuda-linux",
        "rtx5090-linux",
        {
            "name": "NVIDIA GeForce RTX 9090",
            "capability": "12.1",
            "memory": 98304 * 2**20,
        },
    ),
    "a Max with a driver of tomorrow": (
        "max-linux",
        "max-1100-linux",
        {"driver": "1.21.45000", "memory": 50001 * 2**20, "free_memory": "raises"},
    ),
    "a legacy stack on a newer Arc": (
        "ipex-llm-windows",
        "arc-b580-windows",
        {"name": "Intel(R) Arc(TM) B999 Graphics", "memory": 24001 * 2**20},
    ),
    "an H100 beside a card that is too old": (
        "cuda-linux",
        "h100-linux",
        {"others": [{"name": "Quadro M2000", "capability": "5.2"}]},
    ),
    "an A770 beside the processor's GPU": (
        "arc-linux",
        "arc-a770-linux",
        {
            "others": [
                {"name": "Intel(R) UHD Graphics 770", "id": 0x4680, "fp64": "none"}
            ]
        },
    ),
}


def invented(base: dict[str, Any]) -> list[World]:
    """Return worlds of healthy devices that the facts do not have."""
    known = profiles.profiles()
    found = []
    for name, (target, profile, changes) in INVENTED.items():
        made = profiles.world(target, known[profile], base, **changes)
        found.append({**made, "name": name})
    # A server of a user who has no compiler at all.
    bare = replace(
        known["max-1100-linux"],
        seen=known["max-1100-linux"].seen | {"compile_needs": ""},
    )
    found.append({**profiles.world("max-linux", bare, base), "name": "no compiler"})
    return found


OTHERS = {name: f"{name}: the other" for name in INVENTED if " beside " in name}


def second(base: dict[str, Any]) -> list[World]:
    """Return the worlds of the second devices of the same machines."""
    both = [world for world in invented(base) if world["name"] in OTHERS]
    return [{**world, "name": OTHERS[world["name"]], "device": 1} for world in both]


@pytest.mark.profiles
@pytest.mark.parametrize("name", OTHERS.values())
def test_a_second_device_that_the_target_is_not_for_is_left_out(
    every: Results, name: str
) -> None:
    assert [each for each in every[name]["results"] if each["finding"]] == []
    assert {"device.ready@1", "device.matmul@1"} <= {
        each["id"] for each in every[name]["excused"]
    }


@pytest.mark.machine
@pytest.mark.parametrize("name", FAST_INVENTED)
def test_a_healthy_device_that_is_in_no_list_passes(
    fast: Results, base: dict[str, Any], name: str
) -> None:
    (played,) = [world for world in invented(base) if world["name"] == name]
    judge(played, fast[name])


@pytest.mark.profiles
@pytest.mark.parametrize("name", [*INVENTED, "no compiler"])
def test_every_healthy_device_that_is_in_no_list_passes(
    every: Results, base: dict[str, Any], name: str
) -> None:
    (played,) = [world for world in invented(base) if world["name"] == name]
    judge(played, every[name])


# Faults -------------------------------------------------------------------------------------------

# Faults that are none on a device: what they do is right there, or nothing depends on it.
NO_FAULT = {
    "cuda-linux": {
        "another_device_answers_first",  # CUDA is the target's
        # One device: its sum is its own.
        *("the_sum_leaves_one_process_out", "a_large_sum_loses_its_tail"),
        # Families are Intel's; for CUDA the architectures of the wheel decide.
        *("a_gpu_that_the_target_is_not_for", "an_integrated_gpu_is_first"),
        *("an_integrated_gpu_without_a_name_is_first", "a_device_that_is_in_no_list"),
    },
    "arc-linux": {
        *("a_gpu_that_the_target_is_not_for", "the_sum_leaves_one_process_out"),
        "a_large_sum_loses_its_tail",
    },
    "max-linux": set(),
    "mps-macos": {
        # Of Linux and WSL; a Mac has one device, of which Accelerate knows the name only.
        *("no_kernel_driver_has_taken_the_gpu", "wsl_has_no_library_for_its_gpu"),
        *("the_sum_leaves_one_process_out", "a_large_sum_loses_its_tail"),
        "a_tied_weight_is_filed_under_another_name",
        *(
            "the_automatic_map_ignores_the_memory",
            "the_automatic_map_leaves_the_second_device_out",
        ),
        # MPS keeps no peak, and its memory is counted by a module of its own.
        *("a_peak_forgets_what_is_still_held", "each_byte_is_counted_twice"),
    },
}
# Of the CPU's own autocast.
OF_THE_CPU = {
    "a_convolution_stays_in_float32_under_autocast",
}
# About the CPU, about packages (which the test environment has, and no device), or about another
# accelerator than the profile's.
ELSEWHERE = (
    "identity.",
    "low-bit.",
    "rotary.ipex-llm",
    "rotary.scripted",
    "random.seed",
)


def faults_on(target: str) -> list[Fault]:
    """Return the faults that are to be found on the device of a target."""
    return [
        fault
        for fault in FAULTS
        if fault.code and fault.world in ("cpu", "pretend")
        if not fault.check.startswith(ELSEWHERE) and "accelerator" not in fault.expect
        # The fault of an operator is the same on each of them; what XPU may refuse, hides none.
        if fault.check not in DEEP or target == "arc-linux"
        if fault.name not in NO_FAULT[target] | OF_THE_CPU
        if "peaks" not in fault.expect  # of a card of another name
        # Without float64; and what is documented as absent.
        if fault.check != "resume.scaler" or target not in ("arc-linux", "mps-macos")
        if fault.check not in profiles.by_torch(profiles.targets()[target].accelerator)
    ]


def faulty(pair: tuple[str, str], base: dict[str, Any]) -> list[World]:
    """Return a world for each fault on one device."""
    (sound,) = worlds_of([pair], base, deep=True)
    return [
        {
            **sound,
            "name": f"{fault.name} on {pair[1]}",
            "fault": fault.name,
            "only": [fault.check],
            "expect": {**sound["expect"], **fault.expect},
        }
        for fault in faults_on(pair[0])
    ]


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("pair", "fault"),
    [(pair, fault) for pair in FAULTY for fault in faults_on(pair[0])],
    ids=lambda value: value.name if isinstance(value, Fault) else value[0],
)
def test_a_fault_is_found_on_each_device(
    every: Results, pair: tuple[str, str], fault: Fault
) -> None:
    result = every[f"{fault.name} on {pair[1]}"]
    assert failures(result["results"]) == [(fault.check, fault.code)], result["not_run"]


# Machines that are not healthy --------------------------------------------------------------------

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
LOST = "level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
UHD = {"name": "Intel(R) UHD Graphics 770", "id": 0x4680, "fp64": "none"}
# Name -> target, profile, what the device says, what else the world is, check, text of its finding.
UNHEALTHY: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], str, str]] = {
    "the processor's GPU comes first": (
        *("arc-linux", "arc-a770-linux", {**UHD, "others": [{}]}, {}),
        *("device.family", "Intel(R) UHD Graphics 770 is of family"),
    ),
    "another program holds the device": (
        *("cuda-linux", "h100-linux", {"refuses": BUSY}, {}),
        *("device.ready", "busy or unavailable"),
    ),
    "the second tile is broken": (
        *(
            "max-linux",
            "max-1550-linux-flat",
            {"others": [{"refuses": LOST}]},
            {"device": 1},
        ),
        *("device.ready@1", "UR_RESULT_ERROR_DEVICE_LOST"),
    ),
    "the first kernel loses the device, and a copy raises the error": (
        *("arc-linux", "arc-b580-linux", {"loses": LOST}, {}),
        *("device.ready", "UR_RESULT_ERROR_DEVICE_LOST"),
    ),
    "WSL without Intel's libraries": (
        *("arc-linux", "mtl-155h-wsl", {"available": False}, {}),
        *("device.ready", "device nodes = none"),
    ),
    "a virtual machine without Metal": (
        *("mps-macos", "apple-mps", {"available": False}, {}),
        *("device.ready", "no mps device is usable"),
    ),
    "a Mac whose GPU another program has taken down": (
        *(
            "mps-macos",
            "apple-mps",
            {"refuses": "command buffer exited with error status"},
            {},
        ),
        *("device.ready", "command buffer exited"),
    ),
    "the wheel has no code for the device": (
        *("cuda-linux", "t4-linux", {"capability": "6.1"}, {}),
        *("device.family", "sm_61"),
    ),
}


def unhealthy(base: dict[str, Any]) -> list[World]:
    """Return worlds in which the device must not pass."""
    known = profiles.profiles()
    return [
        {**profiles.world(target, known[profile], base, **says), **more, "name": name}
        for name, (target, profile, says, more, _check, _text) in UNHEALTHY.items()
    ]


@pytest.mark.profiles
@pytest.mark.parametrize("name", UNHEALTHY)
def test_an_unhealthy_device_does_not_pass(every: Results, name: str) -> None:
    *_, check, text = UNHEALTHY[name]
    failed = [each for each in every[name]["results"] if each["outcome"] == "failed"]
    first = next(each for each in failed if each["finding"]["code"] != "blocked")
    assert first["id"] == check
    lines = [first["finding"]["symptom"], *first["finding"]["evidence"]]
    assert any(text in line for line in lines), lines
    assert all(
        each["finding"]["code"] == "blocked" for each in failed if each is not first
    )
