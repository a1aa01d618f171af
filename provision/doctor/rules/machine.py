"""Rules on the machine: whether the environment can use the GPU that it is for."""

import re

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.compatibility import hindrances, missing_runtimes, old_libraries
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
    if part := malformed(value):
        yield case("selector", (f"ONEAPI_DEVICE_SELECTOR={value}",), part=part)


@unless("selector-syntax")
def hidden_card(context: DoctorContext) -> Findings:
    """An environment variable hides the GPU, or all GPUs except an integrated one."""
    covered = hidden(context.host)
    own = [gpu for gpu in context.own_gpus if gpu.supported]
    gone = [gpu for gpu in own if gpu.address in covered]
    left = [gpu for gpu in context.own_gpus if gpu.address not in covered]
    if not gone:
        return
    evidence = tuple(f"{covered[gpu.address]} hides {gpu.name}" for gpu in gone)
    variable = covered[gone[0].address].partition("=")[0]
    if left and all(gpu.integrated for gpu in left):
        yield case(
            "hidden-discrete-card", evidence, name=left[0].name, variable=variable
        )
    elif not left:
        yield case("hidden-cards", evidence, variable=variable)


def unusable(context: DoctorContext) -> Findings:
    """Something keeps every GPU that the environment could use from working."""
    own = [gpu for gpu in context.own_gpus if gpu.supported]
    found = [
        (gpu, cause)
        for gpu in own
        if (cause := next(hindrances(gpu, context.host), None))
    ]
    # One that works is enough: another may belong to a virtual machine, or to the display.
    for _, cause in found[:1] if len(found) == len(own) else ():
        lines = (f"{gpu.name} at {gpu.address}: {it.reason}" for gpu, it in found[:4])
        yield case(cause.name, lines, remedy=cause.remedy[0].upper() + cause.remedy[1:])


def small_bar(context: DoctorContext) -> Findings:
    """A card of Intel's maps its memory through a small window, which is slow with i915."""
    for gpu in context.own_gpus:
        driver = gpu.driver.name if gpu.driver and gpu.supported else ""
        if driver == "i915" and gpu.resizable_bar is False:
            yield case("slow-bar", (f"{gpu.name} at {gpu.address}",))


@unless("driver-missing", "oneapi-runtime-missing")
def no_runtime(context: DoctorContext) -> Findings:
    """Intel's user-mode driver or the Level Zero loader is not installed."""
    own = [
        gpu
        for gpu in context.gpus("intel")
        if gpu.supported and gpu in context.own_gpus
    ]
    if own and (absent := [*missing_runtimes(own[0], context.host)]):
        packages = " ".join(each.name for each in absent)
        yield case(
            "no-runtime",
            (i.reason for i in absent),
            name=own[0].name,
            packages=packages,
        )


def old_system(context: DoctorContext) -> Findings:
    """The system's C or C++ library is older than the wheels need."""
    if old := old_libraries(context.host):
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
        if lines := [
            line for line in context.host.system.gpu_log if re.search(pattern, line)
        ]:
            yield case(name, lines[-3:])


def unsupported_gpu(context: DoctorContext) -> Findings:
    """The wheels have no kernels for the generation of any GPU of this machine."""
    known = [gpu for gpu in context.own_gpus if gpu.device_id]
    bad = [line for gpu in known if (line := _unsupported(gpu, context))]
    if known and len(bad) == len(known):
        yield case("unsupported-gpu", bad[:4])


def _unsupported(gpu: Gpu, context: DoctorContext) -> str:
    if not gpu.supported:
        return f"PyTorch does not support {gpu.name} (family {gpu.family or 'unknown'})"
    cuda = context.env.torch.cuda if context.env.torch else None
    oldest = data("packages")["oldest_card"].get((cuda or "").partition(".")[0])
    if (
        gpu.compute_capability
        and oldest
        and not satisfies(gpu.compute_capability, f">={oldest}")
    ):
        return f"{gpu.name} has compute capability {gpu.compute_capability}, below {oldest}"
    return ""
