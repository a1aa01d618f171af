"""Driver versions as machines show them, against every minimum of the specs.

The strings were seen on real machines (torch, sycl-ls, clinfo, package managers, the registry,
nvidia-smi); the expected verdicts were written by hand.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from provision.catalog.devices import read_devices
from provision.host.drivers import (
    DriverVerdict,
    driver_remedy,
    driver_version,
    judge_version,
    satisfies,
    smoke_expectation,
)
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.spec.parts import TargetHardware
from provision.spec.reader import read_hardware

ENVS = Path(__file__).parents[2] / "envs"
DEVICES = read_devices(ENVS / "catalog")
VERDICTS = {
    "+": DriverVerdict.NEW_ENOUGH,
    "-": DriverVerdict.TOO_OLD,
    "?": DriverVerdict.UNKNOWN,
}

# One column per minimum: + new enough, - too old, ? unknown.
INTEL_FLOORS = (
    ">=24.39.31294",
    ">=32.0.101.6129",
    ">=23.35.27191",
    ">=31.0.101.5122",
    ">=25.18.33578",
    ">=32.0.101.7088",
    ">=26.18.38308",
)
INTEL = {
    # Level Zero, as torch and sycl-ls show it on Linux, WSL and Windows.
    "1.3.26918": "---?---",  # 5122 is older than 5186, which is build 28044: no more is known
    "1.3.28044": "--++---",
    "1.5.31093": "-+++---",  # is 32.0.101.6129
    "1.3.31441": "++++---",
    "1.6.31294+21": "++++---",
    "1.6.33578+51": "+++++--",
    # Linux packages and OpenCL.
    "22.43.24595": "---?---",  # Debian bookworm's
    "24.39.31294.21-1032~22.04": "++++---",
    "25.18.33578": "+++++--",
    "26.05.037020": "++++++-",
    "26.18.38308.1-1~26.04~ppa1": "+++++++",
    # The registry of Windows.
    "31.0.101.4091": "--?----",  # at most build 28044
    "31.0.101.5186": "--++---",
    "32.0.101.6044": "--++---",  # at most build 31093
    "32.0.101.6129": "-+++---",
    "32.0.101.6449": "?+++---",  # between builds 31093 and 33511
    "32.0.101.8992": "+++++++",
    # What says nothing: xpu-smi's integer, properties without a version, an unset version.
    "17013219": "???????",
    None: "???????",
    "": "???????",
    "1.3.0": "???????",
}
NVIDIA_FLOORS = (">=580.65.06", ">=580", ">=525.60.13")
NVIDIA = {
    "570.211.01": "--+",
    "580.65": "?++",  # may be 580.65.06 without its last part
    "580.65.06": "+++",
    "580.95.05": "+++",
    "527.99": "--+",
    "576.83": "--+",
    "580.88": "+++",
    "32.0.15.8088": "+++",  # 580.88 in the registry of Windows
    "535.xx": "???",
    None: "???",
    "": "???",
}
MACOS_FLOORS = (">=14",)
MACOS = {
    "13.7.8": "-",
    "14.0": "+",
    "14.6.1": "+",
    "15.7.9": "+",
    "26.7": "+",
    "9.2.2": "?",
    "26A": "?",
    None: "?",
    "": "?",
}
TABLE = [
    (version, floor, vendor, expected)
    for vendor, rows, floors in (
        ("intel", INTEL, INTEL_FLOORS),
        ("nvidia", NVIDIA, NVIDIA_FLOORS),
        ("apple", MACOS, MACOS_FLOORS),
    )
    for version, row in rows.items()
    for floor, expected in zip(floors, row, strict=True)
]

ARC = Gpu(
    "intel",
    "e20b",
    "Arc B580",
    "0",
    "bmg",
    supported=True,
    integrated=False,
    driver=Driver("Intel Corporation", "32.0.101.8826"),
)
UHD = Gpu(
    "intel",
    "a780",
    "UHD Graphics 770",
    "1",
    "adl",
    integrated=True,
    driver=Driver("Intel Corporation", "31.0.101.4091"),
)
RTX = Gpu(
    "nvidia", "2204", "RTX 3090", "2", "ampere", driver=Driver("nvidia", "580.95.05")
)
IN_WSL = Gpu(
    "intel", "", "Intel GPU behind WSL", "3", driver=Driver("dxg", "32.0.101.6874")
)


def windows(*gpus: Gpu) -> Host:
    return Host("win-64", "10.0.26100", gpus=gpus)


def wsl(*gpus: Gpu, **runtimes: str) -> Host:
    runtime = Runtimes(**runtimes)  # type: ignore[arg-type]
    return Host("linux-64", "6.6", surroundings=("wsl",), gpus=gpus, runtimes=runtime)


def test_every_minimum_of_the_specs_is_in_the_table() -> None:
    floors = {
        (spec.accelerator, spec.driver) for spec in read_hardware(ENVS) if spec.driver
    }
    assert floors == {("xpu", f) for f in INTEL_FLOORS} | {
        ("cuda", f) for f in NVIDIA_FLOORS
    } | {("mps", floor) for floor in MACOS_FLOORS}


def test_real_versions() -> None:
    for version, floor, vendor, expected in TABLE:
        judged = judge_version(version, floor, vendor, DEVICES)
        assert judged.verdict is VERDICTS[expected], (version, floor)
        assert judged.reason
        assert judged.evidence[1] == f"required {floor}"


OTHERS = [
    ("intel", "1.6.31294+21", ">=24.52", "-"),
    ("intel", "32.0.101.6874", ">=24.52", "+"),
    ("intel", "0.23000", ">=24.52", "-"),  # older than every release of the catalog
    ("intel", "26.31.39395", ">=99.01", "?"),  # newer than the catalog
    ("intel", "1.5.31093+4", ">32.0.101.6129", "-"),
    ("intel", "32.0.101.6130", ">32.0.101.6129", "+"),
    ("intel", "1.6.33578+38", ">=25.18.33578.51", "-"),
    ("intel", "1.6.33578", ">=25.18.33578.51", "?"),  # its hotfix is not visible
    ("intel", "26.05.37020", ">=24.39.31294,<26", "-"),
    ("intel", "24.52.32300", ">=24.53", "-"),  # no release: the next one is 25.05
    ("intel", "32.0.101.6874", ">=31.0", "?"),  # too short to tell its numbering
    ("intel", "25.18.33578", "==25.18.*", "?"),  # digits are not compared
    ("intel", "1.6.33578", "no specifier", "?"),
    ("nvidia", "580.88", "<580", "-"),
    ("nvidia", "580.65.06", ">580.65.06", "-"),
    ("nvidia", "580.65.06", "<=580.65.06", "+"),
]


def test_other_requirements() -> None:
    for vendor, version, floor, expected in OTHERS:
        judged = judge_version(version, floor, vendor, DEVICES)
        assert judged.verdict is VERDICTS[expected], (version, floor)


def test_evidence_names_the_builds() -> None:
    found = judge_version("1.6.33511", ">=32.0.101.6129", "intel", DEVICES)
    assert found.evidence == (
        "driver 1.6.33511",
        "required >=32.0.101.6129",
        "32.0.101.6129 is build 31093",
    )
    found = judge_version("32.0.101.6449", ">=24.39.31294", "intel", DEVICES)
    assert "32.0.101.6449 is build 31093 to 33511" in found.evidence


def test_without_the_catalog_other_numberings_are_unknown() -> None:
    cases = {
        ("1.6.33511", ">=32.0.101.6129"): DriverVerdict.UNKNOWN,
        ("25.18.33578", ">=24.52"): DriverVerdict.NEW_ENOUGH,
        ("24.22.29735", ">=24.52"): DriverVerdict.TOO_OLD,
    }
    for (version, floor), verdict in cases.items():
        assert judge_version(version, floor, "intel").verdict is verdict


def test_fewer_pairs_never_turn_an_answer_around() -> None:
    """Interpolation agrees with the pair that it stands in for, or says that it is unknown."""
    pairs = DEVICES.intel_windows
    for windows_number in pairs:
        rest = {name: pairs[name] for name in pairs if name != windows_number}
        fewer = dataclasses.replace(DEVICES, intel_windows=rest)
        for level_zero in pairs.values():
            for version, floor in (
                (windows_number, f">={level_zero.partition('+')[0]}"),
                (level_zero, f">={windows_number}"),
            ):
                exact = judge_version(version, floor, "intel", DEVICES).verdict
                judged = judge_version(version, floor, "intel", fewer).verdict
                assert exact is not DriverVerdict.UNKNOWN
                assert judged in (exact, DriverVerdict.UNKNOWN)


FLOORS = st.sampled_from([*INTEL_FLOORS, *NVIDIA_FLOORS, ">=24.52", "==580.*"])
DIGITS = st.text("0123456789.+-~x ", max_size=24)
# Of any signs; hypothesis's own alphabet takes two seconds to be made.
TEXT = st.text(st.integers(0, 0xD7FF).map(chr))


@given(
    st.none() | TEXT | DIGITS,
    FLOORS | TEXT,
    st.sampled_from(["intel", "nvidia", "amd"]),
)
def test_no_version_raises(version: str | None, floor: str, vendor: str) -> None:
    judged = judge_version(version, floor, vendor, DEVICES)
    assert judged.verdict in DriverVerdict
    assert judged.reason


@given(
    st.integers(10000, 99999), st.integers(10000, 99999), st.sampled_from(INTEL_FLOORS)
)
def test_a_newer_build_is_never_judged_older(one: int, other: int, floor: str) -> None:
    order = [DriverVerdict.TOO_OLD, DriverVerdict.UNKNOWN, DriverVerdict.NEW_ENOUGH]
    verdicts = [
        order.index(judge_version(f"1.6.{build}", floor, "intel", DEVICES).verdict)
        for build in sorted((one, other))
    ]
    assert verdicts == sorted(verdicts)


def test_intel_on_linux_is_judged_by_compute_runtime() -> None:
    gpu = dataclasses.replace(ARC, driver=Driver("i915", "backported to 5.15"))
    host = Host("linux-64", "6.8", gpus=(gpu,))
    assert driver_version(gpu, host) is None
    runtimes = Runtimes(compute_runtime="25.18.33578")
    assert (
        driver_version(gpu, dataclasses.replace(host, runtimes=runtimes))
        == "25.18.33578"
    )


def test_wsl_is_judged_by_its_compute_runtime_or_the_windows_driver() -> None:
    assert driver_version(IN_WSL, wsl(IN_WSL)) == "32.0.101.6874"
    host = wsl(IN_WSL, compute_runtime="25.18.33578")
    assert driver_version(IN_WSL, host) == "25.18.33578"


def test_libcuda_tells_the_driver_where_nothing_else_does() -> None:
    gpu = dataclasses.replace(RTX, driver=Driver("nvidia"))
    host = Host("linux-64", "6.8", gpus=(gpu,), runtimes=Runtimes(cuda="580.95.05"))
    assert driver_version(gpu, host) == "580.95.05"
    assert (
        driver_version(gpu, dataclasses.replace(host, runtimes=Runtimes(cuda="")))
        is None
    )
    bare = dataclasses.replace(RTX, driver=None)
    assert driver_version(bare, host) is None  # a library alone drives nothing


def test_the_remedy_in_wsl_is_in_windows() -> None:
    assert driver_remedy(RTX, Host("linux-64", "6.8"), ">=1") == "Install a driver >=1"
    for gpu, maker in ((RTX, "NVIDIA"), (IN_WSL, "Intel")):
        remedy = driver_remedy(gpu, wsl(gpu), ">=1")
        assert f"Update {maker}'s driver in Windows, then `wsl --update`" in remedy
    inside = wsl(IN_WSL, compute_runtime="23.1")
    assert driver_remedy(IN_WSL, inside, ">=1") == "Install a driver >=1"
    assert "driver in Windows" in driver_remedy(RTX, inside, ">=1")


def test_a_capability_that_is_none_is_in_no_range() -> None:
    assert satisfies("8.6", ">=7.5")
    assert not satisfies("7.0", ">=7.5")
    assert not satisfies("?", ">=7.5")


def arc_windows(host: Host) -> dict[str, Any]:
    """Return the expectation for the target of older drivers."""
    (target,) = (
        each for each in read_hardware(ENVS) if each.name == "arc-windows-older"
    )
    found = smoke_expectation(target, host, DEVICES)
    assert found is not None
    return found


def test_expectation_for_the_smoke_suite() -> None:
    cases = [
        (windows(ARC), "new-enough"),
        (windows(ARC, UHD), "new-enough"),  # UHD is of no family of the target
        (windows(ARC, RTX), "new-enough"),  # RTX is of another vendor
        (windows(UHD), "unknown"),
        (windows(), "unknown"),
        (wsl(IN_WSL), "new-enough"),
    ]
    for host, verdict in cases:
        expectation = arc_windows(host)
        assert expectation["verdict"] == verdict
        assert expectation["reason"]
        assert json.loads(json.dumps(expectation)) == expectation
    of_cuda = TargetHardware("mine", "cuda", "linux-64", driver=">=580")
    linux = Host("linux-64", "6.8", gpus=(RTX,))
    found = smoke_expectation(of_cuda, linux, DEVICES)
    assert (found or {})["verdict"] == "new-enough"
    for fewer in ({"driver": None}, {"accelerator": "cpu"}):
        target = dataclasses.replace(of_cuda, **fewer)
        assert smoke_expectation(target, linux, DEVICES) is None


def test_devices_with_different_drivers_are_not_judged() -> None:
    old = dataclasses.replace(
        ARC, address="9", driver=Driver("Intel Corporation", "32.0.101.6044")
    )
    found = arc_windows(windows(ARC, old))
    assert (found["verdict"], found["reason"]) == (
        "unknown",
        "the devices of this machine have different drivers",
    )
    assert found["evidence"] == [
        "Arc B580 has driver 32.0.101.8826",
        "required >=32.0.101.6129",
        "Arc B580 has driver 32.0.101.6044",
    ]


def test_the_floors_of_the_cuda_targets_are_those_of_the_catalog() -> None:
    # The catalog has NVIDIA's numbers; a spec repeats them, so that it can be read alone.
    targets = {target.name: target for target in read_hardware(ENVS)}
    for name in ("cuda-linux", "cuda-linux-aarch64", "cuda-windows"):
        hardware = targets[name]
        least = DEVICES.least_driver("13.0", hardware.platform)
        floor = SpecifierSet(str(hardware.driver))
        assert least in floor, name
        assert "579.99" not in floor, name
