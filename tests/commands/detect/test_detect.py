"""Which target fits which machine, for the GPUs people have."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.commands.detect import (
    Detection,
    FitVerdict,
    choose_target,
    detect,
    fitting_shipped_targets,
    why_device_is_absent,
)
from provision.core.errors import UsageError
from provision.core.project import Project
from provision.host.model import Driver, Host, Runtimes
from provision.spec.reader import load_target, read_hardware
from tests.published import is_published

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.spec.parts import TargetHardware

    Recorded = Callable[..., Host]


def verdicts(found: Detection) -> dict[str, str]:
    return {fit.target: fit.verdict.value for fit in found.fits}


def reason(found: Detection, target: str) -> str:
    return next("; ".join(fit.reasons) for fit in found.fits if fit.target == target)


LINUX = {
    "none": "cpu-linux",
    "a770": "arc-linux",
    "b580": "arc-linux",
    "flex-170": "arc-linux",
    "max-1550-x8": "max-linux",
    "uhd-630": "cpu-linux",
    "hd-4000": "cpu-linux",
    "lunar-lake": "arc-linux",
    "rtx-3090": "cuda-linux",
    "rtx-3090-old-driver": "cpu-linux",
    "h100": "cuda-linux",
    "gtx-1080": "cpu-linux",  # of the targets here; the shipped ones have one for it
    "nvidia-driver-absent": "cpu-linux",
    "a770-beside-uhd": "arc-linux",
    "rtx-beside-arc": "cuda-linux",
    "amd-beside-arc": "arc-linux",
    "arc-driver-absent": "cpu-linux",
    "arc-no-runtime": "cpu-linux",
    "a770-no-permission": "cpu-linux",
    "a770-in-docker": "cpu-linux",
    "wsl2-nvidia": "cuda-linux",
    "wsl2-intel": "cpu-linux",
    "kvm-guest": "cpu-linux",
}
WINDOWS = {
    "a770": "arc-windows",
    "a770-old-driver": "cpu-windows",
    "a770-beside-uhd": "arc-windows",
    "lunar-lake": "arc-windows",
    "uhd-630": "cpu-windows",
    "rtx-3090": "cuda-windows",
    "rtx-3090-basic-driver": "cpu-windows",
    "rtx-beside-arc": "cuda-windows",
    "remote-desktop": "cpu-windows",
}

SPECS = Path(__file__).parents[3] / "envs"
OWN = read_hardware(SPECS)
# What this repository has a target of its own for.
OURS = {
    "gtx-1080": "cuda126-linux",
    "flex-170": "arc-linux-older",
    "max-1550-x8": "max-linux-older",
}


@pytest.mark.parametrize(("machine", "chosen"), LINUX.items())
def test_linux_machine_gets_its_target(
    machine: str, chosen: str, linux: Recorded, targets: list[TargetHardware]
) -> None:
    host = linux(machine)
    found = detect(targets, host)
    assert found.chosen == chosen
    for fit in found.fits:
        assert fit.reasons, "every yes and no has a reason"
    assert len(found.fits) == len(targets)
    assert is_published("detect", found)
    assert detect(OWN, host).chosen == OURS.get(machine, chosen)


@pytest.mark.parametrize(("machine", "chosen"), WINDOWS.items())
def test_windows_machine_gets_its_target(
    machine: str, chosen: str, windows: Recorded, targets: list[TargetHardware]
) -> None:
    found = detect(targets, windows(machine))
    assert found.chosen == chosen
    assert is_published("detect", found)


def test_no_gpu_says_what_is_there_instead(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    found = detect(targets, linux("none"))
    assert "no GPU at all" in reason(found, "cuda-linux")
    found = detect(targets, linux("amd-beside-arc"))
    assert "Arc A380" in reason(found, "cuda-linux")


def test_where_no_target_fits_a_build_hears_where_to_go_or_why(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    host = linux("none")
    of_gpus = [target for target in targets if target.accelerator != "cpu"]
    for elsewhere, why in (("", "no GPU at all"), ("take 32 bits", "take 32 bits")):
        there = dataclasses.replace(host, elsewhere=elsewhere)
        with pytest.raises(UsageError, match="no target fits") as caught:
            choose_target(detect(of_gpus, there))
        assert why in caught.value.evidence
    with pytest.raises(UsageError, match="no target fits"):
        choose_target(detect([], host))


def test_a_build_hears_why_its_device_is_absent(linux: Recorded) -> None:
    target = load_target(SPECS, "cuda-linux")
    assert why_device_is_absent(target, lambda: linux("h100")) == ""
    why = why_device_is_absent(target, lambda: linux("none"))
    assert "no GPU at all" in why


@pytest.mark.parametrize(
    ("machine", "fitting"),
    [("a770", ["arc-linux", "cpu-linux"]), ("none", ["cpu-linux"])],
)
def test_a_new_project_gets_the_target_of_the_machine_and_of_its_cpu(
    machine: str, fitting: list[str], linux: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provision.commands.detect.this_host", lambda _: linux(machine))
    assert fitting_shipped_targets(Project(SPECS.parent)) == fitting


def test_unsupported_family_is_named(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    found = detect(targets, linux("uhd-630"))
    assert "UHD Graphics 630" in reason(found, "arc-linux")
    assert "no XPU kernels for its family cfl" in reason(found, "arc-linux")
    assert "HD Graphics 4000" in reason(detect(targets, linux("hd-4000")), "arc-linux")


def test_old_capability_is_a_no(linux: Recorded, targets: list[TargetHardware]) -> None:
    found = detect(targets, linux("gtx-1080"))
    assert verdicts(found)["cuda-linux"] == "no"
    assert "6.1 is not >=7.5" in reason(found, "cuda-linux")


BLOCKED = [
    (
        "rtx-3090-old-driver",
        "cuda-linux",
        "driver 470.86 is not >=580.65.06",
        "install a driver",
    ),
    (
        "nvidia-driver-absent",
        "cuda-linux",
        "no driver is bound",
        "install NVIDIA's driver",
    ),
    ("arc-driver-absent", "arc-linux", "no driver is bound", "install a newer kernel"),
    ("arc-no-runtime", "arc-linux", "libze_intel_gpu.so.1", "install libze-intel-gpu1"),
    (
        "a770-no-permission",
        "arc-linux",
        "belongs to group render",
        "usermod -aG render",
    ),
    (
        "a770-in-docker",
        "arc-linux",
        "not in this docker container",
        "--device /dev/dri",
    ),
    (
        "a770-small-bar",
        "arc-linux",
        "driver 24.22.29735 is not >=24.52",
        "install a driver",
    ),
    ("rtx-3090-half-updated", "cuda-linux", "module is 580.65.06", "restart"),
    (
        "wsl2-intel",
        "arc-linux",
        "WSL does not show which model",
        "provision build arc-linux",
    ),
]


@pytest.mark.parametrize("case", BLOCKED, ids=lambda case: case[0])
def test_what_can_be_repaired_is_blocked_and_says_how(
    case: tuple[str, str, str, str], linux: Recorded, targets: list[TargetHardware]
) -> None:
    machine, target, why, remedy = case
    found = detect(targets, linux(machine))
    fit = next(fit for fit in found.fits if fit.target == target)
    assert fit.verdict is FitVerdict.BLOCKED
    assert why in fit.reasons[0]
    assert remedy in fit.remedy
    assert fit in found.better, "it would beat the CPU"
    assert any(remedy in line for line in found.advice)


def test_legacy_comes_after_supported(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    order = [fit.target for fit in detect(targets, linux("a770")).fits]
    assert (
        order.index("arc-linux")
        < order.index("cpu-linux")
        < order.index("ipex-llm-linux")
    )


def test_discrete_comes_before_integrated(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    found = detect(targets, linux("a770-beside-uhd"))
    assert "Arc A770 at 0000:03:00.0" in reason(found, "arc-linux")
    assert any(
        "ONEAPI_DEVICE_SELECTOR=level_zero:0 hides the" in a for a in found.advice
    )


def test_hidden_device_is_blocked_by_the_variable(
    linux: Recorded, targets: list[TargetHardware]
) -> None:
    found = detect(targets, linux("rtx-3090", CUDA_VISIBLE_DEVICES=""))
    assert verdicts(found)["cuda-linux"] == "blocked"
    assert "CUDA_VISIBLE_DEVICES= hides it" in reason(found, "cuda-linux")
    assert found.hidden == (
        ("NVIDIA GeForce RTX 3090 at 0000:01:00.0", "CUDA_VISIBLE_DEVICES="),
    )


def test_an_older_intel_driver_gets_the_older_torch_and_is_told_how_to_get_more(
    linux: Recorded,
) -> None:
    found = detect(OWN, linux("flex-170"))
    assert verdicts(found)["arc-linux"] == "blocked"
    assert "is not >=25.18.33578" in reason(found, "arc-linux")
    assert any(line.startswith("arc-linux would fit after") for line in found.advice)


def test_older_driver_gets_the_target_of_the_older_cuda(linux: Recorded) -> None:
    host = linux("rtx-3090")
    gpu = dataclasses.replace(host.gpus[0], driver=Driver("nvidia", "550.54.14"))
    older = dataclasses.replace(host, gpus=(gpu,), runtimes=Runtimes(cuda="550.54.14"))
    found = detect(OWN, older)
    assert found.chosen == "cuda12-linux"
    assert verdicts(found)["cuda-linux"] == "blocked"
