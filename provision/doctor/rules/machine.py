"""Rules on the machine: whether the environment can use the GPU that it is for."""

import re

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.compatibility import (
    hindrances,
    missing_runtimes,
    old_libraries,
)
from provision.host.drivers import satisfies
from provision.host.intel import malformed
from provision.host.model import Gpu
from provision.host.vendors import hidden

# What is left at least, in MiB, of memory, of a control group's, of the disks of the user and of
# temporary files (less counts as full), and the size of a container's /dev/shm. torch takes some
# hundred MiB of memory; Docker gives 64 of shm.
_LEAST_ROOM = {"memory": 512, "cgroup": 512, "disk": 200, "temporary": 50, "shm": 65}


def selector(context: DoctorContext) -> Findings:
    """ONEAPI_DEVICE_SELECTOR has a syntax that SYCL refuses."""
    value = context.host.variables.get("ONEAPI_DEVICE_SELECTOR", "")
    part = malformed(value)
    if part:
        yield case("selector", (f"ONEAPI_DEVICE_SELECTOR={value}",), part=part)


@unless("selector-syntax")
def hidden_card(context: DoctorContext) -> Findings:
    """An environment variable hides the GPU, or all GPUs except an integrated one."""
    covered = hidden(context.host)
    visible = [gpu for gpu in context.own_gpus if gpu.address not in covered]
    evidence = []
    for gpu in context.usable_gpus:
        if gpu.address in covered:
            evidence.append(f"{covered[gpu.address]} hides {gpu.name}")
    if not evidence:
        return
    variable = evidence[0].partition("=")[0]
    if not visible:
        yield case("hidden-cards", evidence, variable=variable)
    elif all(gpu.integrated for gpu in visible):
        name = visible[0].name
        yield case("hidden-discrete-card", evidence, name=name, variable=variable)


def unusable(context: DoctorContext) -> Findings:
    """Something keeps every GPU that the environment could use from working."""
    causes = []
    lines = []
    for gpu in context.usable_gpus:
        cause = next(hindrances(gpu, context.host), None)
        # One that works is enough: another may belong to a virtual machine, or to the display.
        if cause is None:
            return
        causes.append(cause)
        lines.append(f"{gpu.name} at {gpu.address}: {cause.reason}")
    if causes:
        first = causes[0]
        remedy = first.remedy[0].upper() + first.remedy[1:]
        yield case(first.name, lines[:4], remedy=remedy)


def small_bar(context: DoctorContext) -> Findings:
    """A card of Intel's maps its memory through a small window, which is slow with i915."""
    for gpu in context.usable_gpus:
        i915 = gpu.driver is not None and gpu.driver.name == "i915"
        if i915 and gpu.resizable_bar is False:
            yield case("slow-bar", (f"{gpu.name} at {gpu.address}",))


@unless("driver-missing", "oneapi-runtime-missing")
def no_runtime(context: DoctorContext) -> Findings:
    """Intel's user-mode driver or the Level Zero loader is not installed."""
    gpus = [gpu for gpu in context.usable_gpus if gpu.vendor == "intel"]
    if not gpus:
        return
    reasons = {}
    for runtime in missing_runtimes(gpus[0], context.host):
        reasons[runtime.name] = runtime.reason
    if reasons:
        packages = " ".join(reasons)
        name = gpus[0].name
        yield case("no-runtime", reasons.values(), name=name, packages=packages)


def old_system(context: DoctorContext) -> Findings:
    """The system's C or C++ library is older than the wheels need."""
    old = old_libraries(context.host)
    if old:
        yield case("old-system", (old,))


def little_room(context: DoctorContext) -> Findings:
    """Memory, a disk, or a container's shared memory is nearly used up, or too small."""
    for kind, least in _LEAST_ROOM.items():
        evidence = []
        for place, free in context.host.system.room.items():
            mebibytes = free >> 20
            if place.startswith(kind) and mebibytes < least:
                evidence.append(f"{place}: {mebibytes} MiB, less than {least}")
        if evidence:
            yield case(f"little-{kind}", evidence)


def gpu_log(context: DoctorContext) -> Findings:
    """The kernel reported since its start that a GPU failed."""
    for name, pattern in data("packages")["kernel-log"].items():
        log = context.host.system.gpu_log
        lines = [line for line in log if re.search(pattern, line)]
        if lines:
            yield case(name, lines[-3:])


def unsupported_gpu(context: DoctorContext) -> Findings:
    """The wheels have no kernels for the generation of any GPU of this machine."""
    reasons = []
    for gpu in context.own_gpus:
        if gpu.device_id:
            reasons.append(_unsupported(gpu, context))
    if reasons and all(reasons):
        yield case("unsupported-gpu", reasons[:4])


def _unsupported(gpu: Gpu, context: DoctorContext) -> str:
    """Return why a GPU has no kernels, or "" if it may have."""
    if not gpu.supported:
        return f"PyTorch does not support {gpu.name} (family {gpu.family or 'unknown'})"
    torch, capability = context.env.torch, gpu.compute_capability
    if torch and torch.cuda and capability:
        served = _served(torch.cuda)
        if not satisfies(capability, served):
            what = f"which is not in {served}, as CUDA {torch.cuda} needs it"
            return f"{gpu.name} has compute capability {capability}, {what}"
    return ""


def _served(cuda: str) -> str:
    """Return the compute capabilities that torch's wheels for a CUDA serve; all if unknown."""
    rows = data("packages")["cards"]
    starts = [start for start in rows if cuda.startswith(start)]
    if not starts:
        return ">=0"
    return str(rows[max(starts, key=len)])
