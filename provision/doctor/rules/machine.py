"""Rules on the machine: whether the environment can use the GPU that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.host.drivers import satisfies
from provision.host.visibility import hidden, malformed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.host.model import Gpu

# The oldest compute capability in wheels of a CUDA major; CUDA 13 dropped all before Turing.
_OLDEST_CARD = {"13": "7.5", "12": "5.0"}


class Selector:
    """ONEAPI_DEVICE_SELECTOR has a syntax that SYCL refuses."""

    code: ClassVar[str] = "selector-syntax"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        value = context.host.variables.get("ONEAPI_DEVICE_SELECTOR", "")
        if part := malformed(value):
            yield Finding(
                self.code,
                Level.ERROR,
                "Every program that uses SYCL fails at its start",
                f"ONEAPI_DEVICE_SELECTOR takes backend:device; {part!r} is not of that form",
                "export ONEAPI_DEVICE_SELECTOR=level_zero:0",
                (f"ONEAPI_DEVICE_SELECTOR={value}",),
            )


class HiddenCard:
    """An environment variable hides the GPU, or all GPUs except an integrated one."""

    code: ClassVar[str] = "no-gpu-device-visible"
    unless: ClassVar[tuple[str, ...]] = ("selector-syntax",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        covered = hidden(context.host)
        own = [gpu for gpu in context.own_gpus if gpu.supported]
        gone = [gpu for gpu in own if gpu.address in covered]
        left = [gpu for gpu in context.own_gpus if gpu.address not in covered]
        if not gone:
            return
        evidence = tuple(f"{covered[gpu.address]} hides {gpu.name}" for gpu in gone)
        variable = covered[gone[0].address].partition("=")[0]
        if left and all(gpu.integrated for gpu in left):
            yield self._integrated(left[0], variable, evidence)
        elif not left:
            yield Finding(
                self.code,
                Level.WARNING,
                "No GPU is visible to programs in this shell",
                f"{variable} hides all GPUs that the environment could use",
                f"unset {variable}",
                evidence,
            )

    def _integrated(self, left: Gpu, variable: str, evidence: tuple[str, ...]) -> Finding:
        return Finding(
            "igpu-selected-instead-of-dgpu",
            Level.WARNING,
            f"Programs run on the integrated {left.name}",
            f"{variable} hides the discrete card",
            f"Unset {variable}, or set it to the card's number, which `provision detect` shows",
            evidence,
        )


class NoDriver:
    """A GPU that the environment could use has no driver."""

    code: ClassVar[str] = "driver-missing"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        bare = [gpu for gpu in context.own_gpus if gpu.supported and gpu.driver is None]
        if bare:
            yield Finding(
                self.code,
                Level.ERROR,
                "The GPU has no driver",
                "No kernel driver is bound to the GPU",
                "Install the GPU vendor's driver, then restart",
                tuple(f"{gpu.name} at {gpu.address} has no driver" for gpu in bare),
            )


class HalfUpdated:
    """NVIDIA's user-mode library was updated while the old kernel module is still loaded."""

    code: ClassVar[str] = "driver-missing"
    unless: ClassVar[tuple[str, ...]] = ("driver-missing",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        library = context.host.runtimes.cuda
        for gpu in context.gpus("nvidia")[:1] if context.accelerator == "cuda" else ():
            module = gpu.driver.version if gpu.driver else None
            if module and library and module != library and context.host.platform != "win-64":
                yield Finding(
                    self.code,
                    Level.ERROR,
                    "NVIDIA's driver does not answer",
                    "The driver was updated, and the old kernel module is still loaded",
                    "sudo reboot",
                    (f"kernel module {module}", f"libcuda {library}"),
                )


class NoPermission:
    """The user has no permission for the GPU's device files, or the files do not exist."""

    code: ClassVar[str] = "no-render-permission"
    unless: ClassVar[tuple[str, ...]] = ("driver-missing",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        nodes = [node for gpu in context.own_gpus for node in gpu.nodes if not node.usable]
        closed = [node for node in nodes if node.present]
        absent = [node.path for node in nodes if not node.present]
        if closed:
            groups = ",".join(dict.fromkeys(node.group for node in closed))
            yield Finding(
                self.code,
                Level.ERROR,
                "Only root can use the GPU",
                f"This user is not a member of the group {groups}",
                f"Run `sudo usermod -aG {groups} $USER`, then log in again",
                tuple(f"{node.path} belongs to group {node.group}" for node in closed[:4]),
            )
        elif absent:
            yield Finding(
                "no-gpu-device-visible",
                Level.ERROR,
                "The GPU is on the PCI bus, but its device files do not exist",
                "A container was started without them, or the driver is not loaded",
                "Start the container with --device /dev/dri (Intel) or --gpus all (NVIDIA)",
                tuple(f"{path} does not exist" for path in absent[:4]),
            )


class NoRuntime:
    """Intel's user-mode driver or the Level Zero loader is not installed."""

    code: ClassVar[str] = "oneapi-runtime-missing"
    unless: ClassVar[tuple[str, ...]] = ("driver-missing", "oneapi-runtime-missing")

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
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
            yield Finding(
                self.code,
                Level.ERROR,
                f"No program can use {own[0].name}",
                "The oneAPI runtime of the wheels needs system libraries to use the GPU",
                f"sudo apt-get install {' '.join(absent)}",
                tuple(f"{name} is not in the system's library folders" for name in absent.values()),
            )


class UnsupportedGpu:
    """The wheels have no kernels for the generation of any GPU of this machine."""

    code: ClassVar[str] = "unsupported-gpu-architecture"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        known = [gpu for gpu in context.own_gpus if gpu.device_id]
        bad = [line for gpu in known if (line := _unsupported(gpu, context))]
        if known and len(bad) == len(known):
            yield Finding(
                self.code,
                Level.ERROR,
                "PyTorch has no kernels for this GPU",
                "The wheels were not compiled for its generation",
                "Run `provision detect`, which names the target for this machine",
                tuple(bad[:4]),
            )


def _unsupported(gpu: Gpu, context: DoctorContext) -> str:
    if not gpu.supported:
        return f"PyTorch does not support {gpu.name} (family {gpu.family or 'unknown'})"
    cuda = context.env.torch.cuda if context.env.torch else None
    oldest = _OLDEST_CARD.get((cuda or "").partition(".")[0])
    if gpu.compute_capability and oldest and not satisfies(gpu.compute_capability, f">={oldest}"):
        return f"{gpu.name} has compute capability {gpu.compute_capability}, below {oldest}"
    return ""


class StaleCaches:
    """Kernel caches hold entries that were compiled before the driver changed."""

    code: ClassVar[str] = "stale-kernel-cache"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        changed = context.driver_changed
        stale = [c.path for c in context.caches if changed is not None and c.oldest < changed]
        if stale and context.accelerator != "cpu":
            yield Finding(
                self.code,
                Level.NOTE,
                "Compiled kernels are older than the driver",
                "The driver changed after they were compiled; most caches detect this, some do not",
                "rm -r " + " ".join(str(path) for path in stale),
                tuple(f"{path} holds entries from before the driver" for path in stale),
            )


RULES = (
    Selector(),
    HiddenCard(),
    NoDriver(),
    HalfUpdated(),
    NoPermission(),
    NoRuntime(),
    UnsupportedGpu(),
    StaleCaches(),
)
