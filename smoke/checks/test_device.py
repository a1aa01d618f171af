"""The device is present, of the right family, with a driver that is new enough, and computes.

Why it is not usable is tested in this order, because each reason hides those after it: torch is not
built for it, driver missing, driver too old, no permission, no device, operations fail. Other
checks report the rest: unsupported (``device.family``), wrong numbers (each check), slow
(``throughput``), process died or hung (the supervisor).
"""

import contextlib
import glob
import os
from typing import Any

import torch

from smoke.device import cuda_code, devices, intel_device, sensors
from smoke.engine.check import Numbers, check, on_gpu
from smoke.engine.expect import Expect
from smoke.engine.files import read_table
from smoke.engine.finding import fail, fail_if
from smoke.reference import reference

NODES = {"cuda": "/dev/nvidia[0-9]*", "xpu": "/dev/dri/renderD*"}
# Of a device with damaged firmware: Linux, drivers/gpu/drm/xe/xe_survivability_mode.c.
SURVIVABILITY = "/sys/bus/pci/devices/*/survivability_mode"
# Kernel drivers of the host, which a container sees; and what only a container has.
BOUND = {"cuda": ["nvidia"], "xpu": ["i915", "xe"]}
DRIVERS = "/sys/bus/pci/drivers"
CONTAINER = ("/.dockerenv", "/run/.containerenv", "/run/secrets/kubernetes.io")
WSL = "/dev/dxg"  # the one door to every GPU there; WSL itself has no driver for a GPU
# Why a device is absent: code, cause and remedy.
ABSENT = read_table(__file__, "absent.json")
# In an image, for instance: it was made on another machine than it runs on.
NOT_COMPARED = {
    "verdict": "unknown",
    "reason": "the machine was not read",
    "evidence": (),
}


def has_floor(expect: Expect) -> str:
    """Apply to targets that need a minimum driver."""
    if expect.on_gpu and not expect.driver:
        return "the spec names no minimum driver"
    return on_gpu(expect)


@check(
    "device.ready",
    stands_for="is_available() is true while every operation fails",
)
def test_ready(expect: Expect, numbers: Numbers) -> None:
    """The device is present and computes: a product of ones has the right sum."""
    # Before anything can fail: the other devices are checked although this one is broken.
    with contextlib.suppress(Exception):
        numbers.journal.write(count=devices.count(expect.accelerator))
    device = _probed(expect.accelerator, numbers)
    facts = devices.facts(device)
    numbers.journal.write(device={**facts, "index": devices.number()})
    numbers.record("count", facts["count"], "count")
    if "memory" in facts:
        numbers.record("memory", facts["memory"] / 2**30, "GiB")


def _probed(accelerator: str, numbers: Numbers) -> torch.device:
    """Return the device after a first operation on it gave the right result."""
    numbers.step("look for the device")
    if not devices.compiled(accelerator):
        fail(
            "cpu-build-of-torch-installed",
            f"torch {torch.__version__} is built without {accelerator}",
            [f"torch.version.cuda = {torch.version.cuda}"],
        )
    if accelerator != "cpu":
        _available(accelerator)
    numbers.step("first operation")
    device = devices.of(accelerator)
    ones = torch.ones(64, 64)
    product = ones.to(device) @ ones.to(device)
    total = float(product.sum().cpu())
    numbers.within("first operation", abs(total / 64**3 - 1), 0.0)
    return device


def _available(accelerator: str) -> None:
    module = devices.backend(devices.of(accelerator))
    if module.is_available():
        return
    pattern = NODES.get(accelerator, "") if os.name == "posix" else ""
    nodes = sorted(glob.glob(pattern))  # noqa: PTH207
    node = nodes[0] if nodes else ""
    message, driver = _init_error(module), devices.driver(accelerator)
    code, cause, remedy = ABSENT[_reason(accelerator, message, driver, nodes)]
    evidence = [
        f"torch.{accelerator}.is_available() = {module.is_available()}",
        f"torch.{accelerator}.device_count() = {module.device_count()}",
        f"driver = {driver}",
        f"device nodes = {' '.join(nodes) or 'none'}",
        f"torch reports: {message}",
    ]
    fail(
        code,
        f"no {accelerator} device is usable",
        evidence,
        cause=cause.format(node=node, wsl=WSL),
        remedy=remedy.format(node=node, wsl=WSL),
    )


def _reason(
    accelerator: str, message: str, driver: str | None, nodes: list[str]
) -> str:
    """Return why torch finds no device, as `ABSENT` names it."""
    if accelerator == "xpu" and glob.glob(SURVIVABILITY):  # noqa: PTH207
        return "survivability"
    # CUDA's runtime reports an insufficient driver where there is none, too.
    if "too old" in message or (
        "driver version is insufficient" in message and (driver or nodes)
    ):
        return "too-old"
    usable = [node for node in nodes if os.access(node, os.R_OK | os.W_OK)]
    if nodes and not usable:
        return "no-permission"
    if not nodes and os.path.exists(WSL):  # noqa: PTH110
        return f"wsl-{accelerator}"
    # Containers can hide NVML, and with it the version, from a driver that is loaded.
    gone = driver is None if accelerator == "cuda" else os.name == "posix"
    # A library that is there and does not start is a broken driver.
    lacks = not nodes or (accelerator == "cuda" and sensors.nvml_library() is None)
    if lacks and _is_contained() and _is_bound(accelerator):
        return f"not-mounted-{accelerator}"
    return accelerator if gone and not nodes else "invisible"


def _is_contained() -> bool:
    """Return whether this process is in a container."""
    marked = any(map(os.path.exists, CONTAINER))
    return marked or "KUBERNETES_SERVICE_HOST" in os.environ


def _is_bound(accelerator: str) -> bool:
    """Return whether the kernel's driver has a GPU: the host works, whatever is mounted here."""
    patterns = (f"{DRIVERS}/{name}/*:*" for name in BOUND.get(accelerator, ()))
    return any(glob.glob(pattern) for pattern in patterns)  # noqa: PTH207


def _init_error(module: object) -> str:
    """Return the first line of the error with which torch refuses to initialise the device."""
    try:
        module.init()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - its text is the result
        return (str(error).strip() or repr(error)).splitlines()[0]
    return "nothing"


@check(
    "device.matmul",
    stands_for="oneAPI 2026 on an older driver: the first matmul fails",
)
def test_matmul(device: torch.device, numbers: Numbers) -> None:
    """Matrix products of 160 and of 4,096 terms are right in each floating point type."""
    for dtype in reference.dtypes(device):
        for size in ((1, 96, 160, 64), (1, 33, 4096, 130)):
            reference.prove_product(device, numbers, dtype, size)


@check(
    "device.family",
    stands_for="an integrated GPU taken for the Arc",
    when=on_gpu,
)
def test_family(device: torch.device, expect: Expect) -> None:
    """The device is of a family that the target is for, by its id or else by its name."""
    facts = devices.facts(device)
    if devices.kind(device) == "cuda":
        _has_kernels(facts)
        return
    number = devices.device_id(device)
    families = intel_device.families(expect.intel_devices, facts["name"], number)
    # Several families: the name is sold in all of them, so one that fits is enough.
    if not expect.families or families & set(expect.families):
        return
    evidence = [f"device id = {number}"]
    evidence += [f"{key} = {value}" for key, value in facts.items()]
    fit = ", ".join(expect.families)
    if not families:
        fail(
            "device-unknown",
            f"{facts['name']} is not in the device list; the target is for {fit}",
            evidence,
        )
    fail(
        "device-unsupported",
        f"{facts['name']} is of family {' or '.join(sorted(families))}, the target is for {fit}",
        evidence,
    )


def _has_kernels(facts: dict[str, Any]) -> None:
    """Fail the check if this build has no code that the GPU can run."""
    built = torch.cuda.get_arch_list()
    if built and not any(cuda_code.runs(code, facts["capability"]) for code in built):
        fail(
            "unsupported-gpu-architecture",
            f"{facts['name']} is {facts['capability']}; this torch is built for {' '.join(built)}",
            [facts["capability"], *built],
        )


@check(
    "device.fallback",
    stands_for="the CPU computes, in silence",
    when=on_gpu,
)
def test_fallback(device: torch.device, expect: Expect) -> None:
    """No variable lets torch compute on the CPU what it has no kernel for on the device."""
    wrong = []
    for setting in devices.fallback(expect.accelerator):
        wrong.append(f"{setting} of the spec: what {device} computes is not known")
    fail_if([*wrong, *expect.fallback], "cpu-fallback-enabled")


@check(
    "device.driver",
    stands_for="a driver update breaks programs silently",
    when=has_floor,
)
def test_driver(device: torch.device, expect: Expect) -> None:
    """The driver is as new as the target needs, by what the toolkit read of this machine.

    torch shows another number than the driver's packages and Windows do, and IPEX 2.1.10 none, so
    its version is evidence only.
    """
    driver = expect.driver_verdict or NOT_COMPARED
    reported = devices.facts(device)["driver"]
    evidence = [
        *driver["evidence"],
        f"torch reports driver {reported or 'of unknown version'}",
    ]
    if driver["verdict"] == "too-old":
        fail(
            "driver-too-old",
            f"the driver is too old: {driver['reason']}",
            evidence,
            cause="this stack's runtime calls functions that an older driver lacks",
            remedy=f"install a driver {expect.driver}; in WSL it is the driver of Windows",
        )
    if driver["verdict"] == "unknown":
        fail(
            "driver-unknown",
            f"whether the driver is {expect.driver} is unknown: {driver['reason']}",
            evidence,
        )
