"""The device is present, of the right family, with a driver that is new enough, and computes."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from smoke import device as devices
from smoke import driver_version, intel_device, reference
from smoke.checks import DEVICE, check, on_gpu
from smoke.finding import fail
from smoke.probe_device import probe_device

if TYPE_CHECKING:
    from smoke.checks import Numbers
    from smoke.expect import Expect
    from smoke.journal import Journal


def has_floor(expect: Expect) -> str:
    """Apply to targets that need a minimum driver."""
    return on_gpu(expect) or ("" if expect.driver else "the spec names no minimum driver")


@check(DEVICE, stands_for="is_available() is true while every operation fails")
def test_ready(expect: Expect, journal: Journal, numbers: Numbers) -> None:
    """The device is present and computes: a product of ones has the right sum."""
    # Before anything can fail: the other devices are checked although this one is broken.
    with contextlib.suppress(Exception):
        journal.write(count=devices.count(expect.accelerator))
    device = probe_device(expect.accelerator, numbers)
    facts = devices.facts(device)
    journal.write(device={**facts, "index": devices.number()})
    numbers.record("count", facts["count"], "count")
    if "memory" in facts:
        numbers.record("memory", facts["memory"] / 2**30, "GiB")


@check(
    "device.matmul", stands_for="oneAPI 2026 runtimes on an older driver: the first matmul fails"
)
def test_matmul(device: torch.device, numbers: Numbers) -> None:
    """A matrix product is right in each floating point type."""
    for dtype in reference.dtypes(device):
        numbers.step(f"matmul {reference.short(dtype)}")
        left, right = reference.noise(96, 160, dtype=dtype), reference.noise(160, 64, dtype=dtype)
        product = left.to(device) @ right.to(device)
        off = reference.error(product, left.double() @ right.double())
        numbers.within(reference.short(dtype), off, reference.LIMITS[dtype])


@check("device.gradient", stands_for="the forward pass works and the first backward does not")
def test_gradient(device: torch.device, numbers: Numbers) -> None:
    """Convolution, normalisation, pooling and their gradients are right."""
    images = reference.noise(2, 3, 12, 16)
    numbers.step("backward")
    right = _gradient(images.double())
    found = _gradient(images.to(device))
    # cuDNN multiplies in TF32, whose mantissa has ten bits, unless a program forbids it.
    limit = 5e-3 if device.type == "cuda" else 1e-5
    numbers.within("gradient", reference.error(found, right), limit)


def _gradient(images: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a smooth network's first layer, in the images' device and dtype."""
    torch.manual_seed(0)
    # No ReLU or maximum: where they bend, rounding changes the gradient by far more than its size.
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.AvgPool2d(2), nn.Conv2d(8, 4, (5, 7))
    ).to(images.device, images.dtype)
    model(images).square().sum().backward()
    return model[0].weight.grad.detach().cpu()


@check("device.family", stands_for="an integrated GPU taken for the Arc beside it", when=on_gpu)
def test_family(device: torch.device, expect: Expect) -> None:
    """The first device is of a family that the target is for."""
    facts = devices.facts(device)
    if device.type == "cuda":
        _has_kernels(facts)
        return
    number = devices.device_id(device)
    found = intel_device.families(expect.intel_devices, facts["name"], number)
    # No family: the catalog does not know the device. Several: its name is sold in all of them.
    # Neither proves that the target does not fit.
    if expect.families and found and not found & set(expect.families):
        family, fit = " or ".join(sorted(found)), ", ".join(expect.families)
        fail(
            "device-unsupported",
            f"{facts['name']} is of family {family}, the target is for {fit}",
            cause="another device comes first, or this machine needs another target",
            remedy="`provision detect` names the target; ONEAPI_DEVICE_SELECTOR selects the device",
            evidence=[
                f"device id = {number}",
                *(f"{key} = {value}" for key, value in facts.items()),
            ],
        )


def _has_kernels(facts: dict[str, Any]) -> None:
    """Fail the check if this build has no code that the GPU can run."""
    built = torch.cuda.get_arch_list()
    major = facts["capability"][3:-1]
    if not any(re.fullmatch(rf"(sm|compute)_{major}\d[a-z]?", arch) for arch in built):
        fail(
            "unsupported-gpu-architecture",
            f"{facts['name']} is {facts['capability']}; this torch is built for {' '.join(built)}",
            cause="the wheel holds no kernels for this generation of GPU",
            remedy="choose a target whose torch still builds for this GPU",
            evidence=[facts["capability"], *built],
        )


@check(
    "device.driver",
    stands_for="a driver update that breaks programs without a message",
    when=has_floor,
)
def test_driver(device: torch.device, expect: Expect) -> None:
    """The driver is as new as the target needs."""
    found = devices.facts(device)["driver"]
    floor = str(expect.driver)
    enough = driver_version.reaches(found, floor) if found else False
    evidence = [f"driver {found}", f"needed {floor}"]
    if enough is None:
        fail(
            "driver-not-comparable",
            f"the device's driver is {found}, which can't be compared with {floor}",
            cause="the minimum names a release of Intel's driver, the device reports a build",
            remedy="give the minimum with its build, for instance >=24.39.31294",
            evidence=evidence,
        )
    if not enough:
        fail(
            "driver-too-old",
            f"the driver is {found}, the target needs {floor}",
            cause="this stack's runtime calls functions that an older driver lacks",
            remedy="upgrade the driver",
            evidence=evidence,
        )
