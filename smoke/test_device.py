"""The device is present, of the right family, with a driver that is new enough, and computes."""

import contextlib
from typing import Any

import torch

from smoke import cuda_code, intel_device, reference
from smoke import device as devices
from smoke.checks import Numbers, check, on_gpu
from smoke.expect import Expect
from smoke.finding import fail
from smoke.probe_device import probe_device

# In an image, for instance: it was made on another machine than it runs on.
NOT_JUDGED = {"verdict": "unknown", "reason": "the machine was not read", "evidence": ()}


def has_floor(expect: Expect) -> str:
    """Apply to targets that need a minimum driver."""
    return on_gpu(expect) or ("" if expect.driver else "the spec names no minimum driver")


@check("device.ready", stands_for="is_available() is true while every operation fails", depends=())
def test_ready(expect: Expect, numbers: Numbers) -> None:
    """The device is present and computes: a product of ones has the right sum."""
    # Before anything can fail: the other devices are checked although this one is broken.
    with contextlib.suppress(Exception):
        numbers.journal.write(count=devices.count(expect.accelerator))
    device = probe_device(expect.accelerator, numbers)
    facts = devices.facts(device)
    numbers.journal.write(device={**facts, "index": devices.number()})
    numbers.record("count", facts["count"], "count")
    if "memory" in facts:
        numbers.record("memory", facts["memory"] / 2**30, "GiB")


@check(
    "device.matmul", stands_for="oneAPI 2026 on an older driver: the first matmul fails", depends=()
)
def test_matmul(device: torch.device, numbers: Numbers) -> None:
    """Matrix products of 160 and of 4,096 terms are right in each floating point type."""
    for dtype in reference.dtypes(device):
        for size in ((1, 96, 160, 64), (1, 33, 4096, 130)):
            reference.prove_product(device, numbers, dtype, size)


@check("device.family", stands_for="an integrated GPU taken for the Arc", when=on_gpu, depends=())
def test_family(device: torch.device, expect: Expect) -> None:
    """The device is of a family that the target is for, by its id or else by its name."""
    facts = devices.facts(device)
    if devices.kind(device) == "cuda":
        _has_kernels(facts)
        return
    number = devices.device_id(device)
    found = intel_device.families(expect.intel_devices, facts["name"], number)
    evidence = [f"device id = {number}", *(f"{key} = {value}" for key, value in facts.items())]
    fit = ", ".join(expect.families)
    if expect.families and not found:
        fail("device-unknown",
             f"{facts['name']} is not in the device list; the target is for {fit}",
             evidence=evidence)  # fmt: skip
    # Several families: the name is sold in all of them, so one that fits is enough.
    if expect.families and not found & set(expect.families):
        fail("device-unsupported",
             f"{facts['name']} is of family {' or '.join(sorted(found))}, the target is for {fit}",
             evidence=evidence)  # fmt: skip


def _has_kernels(facts: dict[str, Any]) -> None:
    """Fail the check if this build has no code that the GPU can run."""
    built = torch.cuda.get_arch_list()
    if built and not any(cuda_code.runs(code, facts["capability"]) for code in built):
        fail("unsupported-gpu-architecture",
             f"{facts['name']} is {facts['capability']}; this torch is built for {' '.join(built)}",
             evidence=[facts["capability"], *built])  # fmt: skip


@check("device.fallback", stands_for="the CPU computes, in silence", when=on_gpu, depends=())
def test_fallback(device: torch.device) -> None:
    """No variable lets torch compute on the CPU what it has no kernel for on the device."""
    if found := devices.fallback():
        fail("cpu-fallback-enabled", f"{found[0]}: what {device} computes is not known", found)


@check(
    "device.driver", stands_for="a driver update breaks programs silently", when=has_floor,
    depends=(),
)  # fmt: skip
def test_driver(device: torch.device, expect: Expect) -> None:
    """The driver is as new as the target needs, by what the toolkit read of this machine.

    torch shows another number than the driver's packages and Windows do, and IPEX 2.1.10 none, so
    its version is evidence only.
    """
    judged = expect.driver_judgement or NOT_JUDGED
    reported = devices.facts(device)["driver"]
    evidence = [*judged["evidence"], f"torch reports driver {reported or 'of unknown version'}"]
    if judged["verdict"] == "too-old":
        fail("driver-too-old", f"the driver is too old: {judged['reason']}",
             cause="this stack's runtime calls functions that an older driver lacks",
             remedy=f"install a driver {expect.driver}; in WSL it is the driver of Windows",
             evidence=evidence)  # fmt: skip
    if judged["verdict"] == "unknown":
        fail("driver-unknown",
             f"whether the driver is {expect.driver} is unknown: {judged['reason']}",
             evidence=evidence)  # fmt: skip
