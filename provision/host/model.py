"""The model of a host: GPUs, drivers, runtimes and permissions, as frozen data."""

from dataclasses import dataclass, field
from typing import NamedTuple

NOT_KNOWN = "version not known"  # of a layer that is there


@dataclass(frozen=True, slots=True)
class Driver:
    """The kernel driver that a GPU is bound to."""

    name: str
    """`i915`, `xe`, `nvidia`, `dxg` …; on Windows the provider's name."""
    version: str | None = None
    """Its own version; null where it only has the kernel's."""


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A device file through which programs reach a GPU."""

    path: str
    """For instance `/dev/dri/renderD128`."""
    group: str = ""
    """Name or number of the owning group; "" where the file is absent."""
    present: bool = True
    """A container can show a GPU in sysfs and lack its device file."""
    usable: bool = True
    """Whether the user may read and write it."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    vendor: str
    """`intel`, `nvidia`, `amd`, `apple` or `other`."""
    device_id: str
    """PCI device id, four hexadecimal digits; "" where the system hides it."""
    name: str
    """Marketing name, or vendor and device id."""
    address: str
    """PCI address; another unique id where there is none."""
    family: str | None = None
    """In `envs/catalog/devices.toml`; null if the id is not listed."""
    supported: bool = False
    """Whether PyTorch's wheels support this family."""
    integrated: bool | None = None
    """Whether it is part of the processor; null if unknown."""
    compute_capability: str | None = None
    """Of CUDA, for instance `8.6`."""
    driver: Driver | None = None
    """The kernel driver it is bound to, if any."""
    nodes: tuple[DeviceFile, ...] = ()
    """Device files."""
    memory_bytes: int | None = None
    """Dedicated memory in bytes; null where the system does not report it."""
    resizable_bar: bool | None = None
    """Whether all memory is mapped; null if it does not apply."""
    tiles: int = 1
    """Number of devices that the runtime shows for it."""
    survivability: bool = False
    """Whether damaged firmware keeps it in survivability mode, as Linux' driver xe says."""
    least_driver: str = ""
    """The drivers that support this model, as a specifier; "" for any."""
    elsewhere: str = ""
    """What to use for it instead, if no target supports it."""

    @property
    def driver_name(self) -> str:
        """The name of its kernel driver, "" without one."""
        return self.driver.name if self.driver else ""


class NvidiaCard(NamedTuple):
    """One GPU as NVIDIA's own tools describe it."""

    address: str
    name: str
    driver: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None


@dataclass(frozen=True, slots=True)
class Runtimes:
    """GPU libraries of the system, as the loader finds them; "" without a visible version."""

    level_zero: str | None = None
    """The Level Zero loader."""
    compute_runtime: str | None = None
    """Intel's user-mode driver, `<release>.<build>`."""
    cuda: str | None = None
    """NVIDIA's user-mode driver, `libcuda`."""
    nvml: str | None = None
    """NVIDIA's management library, of the same driver."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a process."""

    name: str
    """Of the account."""
    uid: int
    """Of the account."""
    gids: tuple[int, ...] = ()
    """Numbers of its groups."""
    groups: tuple[str, ...] = ()
    """Names of its groups."""


@dataclass(frozen=True, slots=True)
class System:
    """The system around the GPUs; what cannot be read is empty."""

    libc: str = ""
    """For instance `glibc 2.36`, or `musl`."""
    libstdcxx: str = ""
    """File name of the newest, for instance `libstdc++.so.6.0.33`."""
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Vendor of a GPU without a driver to what keeps it out: a table of obstacles.toml, and where.
    """
    room: dict[str, int] = field(default_factory=dict)
    """Free bytes of `memory`, `cgroup …`, `disk …`, `temporary …`; size of `shm`."""
    gpu_log: tuple[str, ...] = ()
    """What the kernel's drivers of GPUs logged since its start."""


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, as one of its users sees it."""

    platform: str
    """conda's name of the platform, for instance `linux-64`."""
    kernel: str
    """Release of the kernel or build of Windows."""
    firmware: str = ""
    """Version of the UEFI or BIOS, "" where it is hidden."""
    surroundings: tuple[str, ...] = ()
    """Layers between the machine and this process: `wsl`, `docker`, `podman`, `kubernetes`, `lxc`,
    `vm` …, outermost first.
    """
    gpus: tuple[Gpu, ...] = ()
    """Display and compute devices, in the order of their PCI addresses."""
    runtimes: Runtimes = field(default_factory=Runtimes)
    """GPU libraries of the system."""
    system: System = field(default_factory=System)
    """What is around the GPUs."""
    user: User | None = None
    """The user of this process; null on Windows."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables that change what a GPU program sees or loads."""
    remarks: tuple[str, ...] = ()
    """Facts that contradict each other."""
    elsewhere: str = ""
    """What to use instead on a platform without a target."""


def host_layers(host: Host) -> dict[str, str]:
    """Return the layers that an upgrade can change, each with its version."""
    layers = {"platform": host.platform, "kernel": host.kernel}
    if host.firmware:
        layers["firmware"] = host.firmware
    for gpu in host.gpus:
        layers[f"GPU {gpu.address}"] = gpu.name
        if gpu.driver:
            # i915 and xe have no version of their own: they change with the kernel.
            layers[f"driver {gpu.driver.name}"] = gpu.driver.version or host.kernel
    runtimes = {
        "Level Zero loader": host.runtimes.level_zero,
        "compute-runtime": host.runtimes.compute_runtime,
        "CUDA driver library": host.runtimes.cuda,
    }
    for layer, version in runtimes.items():
        if version is not None:
            layers[layer] = version or NOT_KNOWN
    return layers


def is_known(version: str) -> bool:
    """Whether a layer's version is one; reports of earlier versions have "" where it is hidden."""
    return version not in ("", NOT_KNOWN)
