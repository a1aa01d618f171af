"""Rules on the machine: whether the environment can use the GPU that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.drivers import satisfies
from provision.host.visibility import hidden, malformed

if TYPE_CHECKING:
    from provision.host.model import Gpu


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
        yield case("hidden-discrete-card", evidence, name=left[0].name, variable=variable)
    elif not left:
        yield case("hidden-cards", evidence, variable=variable)


def no_driver(context: DoctorContext) -> Findings:
    """A GPU that the environment could use has no driver."""
    bare = [gpu for gpu in context.own_gpus if gpu.supported and gpu.driver is None]
    if bare:
        yield case("no-driver", (f"{gpu.name} at {gpu.address} has no driver" for gpu in bare))


@unless("driver-missing")
def half_updated(context: DoctorContext) -> Findings:
    """NVIDIA's user-mode library was updated while the old kernel module is still loaded."""
    library = context.host.runtimes.cuda
    for gpu in context.gpus("nvidia")[:1] if context.accelerator == "cuda" else ():
        module = gpu.driver.version if gpu.driver else None
        if module and library and module != library and context.host.platform != "win-64":
            yield case("half-updated-driver", (f"kernel module {module}", f"libcuda {library}"))


@unless("driver-missing")
def no_permission(context: DoctorContext) -> Findings:
    """The user has no permission for the GPU's device files, or the files do not exist."""
    nodes = [node for gpu in context.own_gpus for node in gpu.nodes if not node.usable]
    closed = [node for node in nodes if node.present]
    absent = [node.path for node in nodes if not node.present]
    if closed:
        groups = ",".join(dict.fromkeys(node.group for node in closed))
        yield case(
            "no-permission",
            (f"{node.path} belongs to group {node.group}" for node in closed[:4]),
            groups=groups,
        )
    elif absent:
        yield case("no-device-files", (f"{path} does not exist" for path in absent[:4]))


@unless("driver-missing", "oneapi-runtime-missing")
def no_runtime(context: DoctorContext) -> Findings:
    """Intel's user-mode driver or the Level Zero loader is not installed."""
    host = context.host
    own = [gpu for gpu in context.own_gpus if gpu.vendor == "intel" and gpu.supported]
    if not own or host.platform != "linux-64" or "wsl" in host.surroundings:
        return
    wanted = {
        "libze-intel-gpu1": ("libze_intel_gpu.so.1", host.runtimes.compute_runtime),
        "libze1": ("libze_loader.so.1", host.runtimes.level_zero),
    }
    absent = {package: name for package, (name, found) in wanted.items() if found is None}
    if absent:
        yield case(
            "no-runtime",
            (f"{name} is not in the system's library folders" for name in absent.values()),
            name=own[0].name,
            packages=" ".join(absent),
        )


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
    if gpu.compute_capability and oldest and not satisfies(gpu.compute_capability, f">={oldest}"):
        return f"{gpu.name} has compute capability {gpu.compute_capability}, below {oldest}"
    return ""


def stale_caches(context: DoctorContext) -> Findings:
    """Kernel caches hold entries that were compiled before the driver changed."""
    stale = context.stale_caches
    if stale and context.accelerator != "cpu":
        evidence = (f"{path} holds entries from before the driver" for path in stale)
        yield case("stale-caches", evidence, folders=" ".join(map(str, stale)))
