"""The model of a host: GPUs, drivers, runtimes and permissions, as frozen data."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Driver:
    """The kernel driver that a GPU is bound to."""

    name: str  # ``i915``, ``xe``, ``nvidia``, ``dxg`` …; on Windows the provider's name
    version: str | None = None  # its own version; None where it only has the kernel's


@dataclass(frozen=True, slots=True)
class Node:
    """A device file through which programs reach a GPU."""

    path: str  # for instance ``/dev/dri/renderD128``
    group: str = ""  # name or number of the owning group; "" where the file is absent
    present: bool = True  # a container can show a GPU in sysfs and lack its device file
    usable: bool = True  # whether the user may read and write it


@dataclass(frozen=True, slots=True)
class Link:
    """The PCI Express link of a GPU: transfer rates as sysfs writes them, and lanes."""

    speed: str
    width: int
    max_speed: str
    max_width: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    vendor: str  # ``intel``, ``nvidia``, ``amd``, ``apple`` or ``other``
    device_id: (
        str  # PCI device id, four hexadecimal digits; "" where the system hides it
    )
    name: str  # marketing name, or vendor and device id
    address: str  # PCI address; another unique id where there is none
    family: str | None = (
        None  # in ``envs/catalog/devices.toml``; None if the id is not listed
    )
    supported: bool = False  # whether PyTorch's wheels support this family
    integrated: bool | None = (
        None  # whether it is part of the processor; None if unknown
    )
    compute_capability: str | None = None  # of CUDA, for instance ``8.6``
    driver: Driver | None = None  # the kernel driver it is bound to, if any
    nodes: tuple[Node, ...] = ()
    memory_bytes: int | None = None  # dedicated memory, where the system reports it
    link: Link | None = None  # None for integrated GPUs
    resizable_bar: bool | None = (
        None  # whether all memory is mapped; None if it does not apply
    )
    tiles: int = 1  # number of devices that the runtime shows for it
    least_driver: str = (
        ""  # the drivers that know this model at all, a specifier; "" for any
    )
    elsewhere: str = ""  # where to go with it if no target serves it


@dataclass(frozen=True, slots=True)
class Runtimes:
    """GPU libraries of the system, outside any environment; "" without a visible version."""

    level_zero: str | None = None  # the Level Zero loader
    compute_runtime: str | None = (
        None  # Intel's user-mode driver, ``<release>.<build>``
    )
    opencl: tuple[str, ...] = ()  # libraries named by the OpenCL ICD files
    cuda: str | None = None  # NVIDIA's user-mode driver, ``libcuda``
    nvml: str | None = None  # NVIDIA's management library, of the same driver


@dataclass(frozen=True, slots=True)
class User:
    """The user of a process."""

    name: str
    uid: int
    gids: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class System:
    """The system around the GPUs; what cannot be read is empty."""

    libc: str = ""  # for instance ``glibc 2.36``, or ``musl``
    libstdcxx: str = ""  # file name of the newest, for instance ``libstdc++.so.6.0.33``
    # Vendor of a GPU without a driver to what keeps it out: a table of obstacles.toml, and where.
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    # Free bytes of ``memory``, ``cgroup …``, ``disk …``, ``temporary …``; size of ``shm``.
    room: dict[str, int] = field(default_factory=dict)
    gpu_log: tuple[
        str, ...
    ] = ()  # what the kernel's drivers of GPUs logged since its start


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, as one of its users sees it."""

    platform: str  # conda's name of the platform, for instance ``linux-64``
    kernel: str  # release of the kernel or build of Windows
    firmware: str = ""  # version of the UEFI or BIOS, "" where it is hidden
    # Layers between the machine and this process: ``wsl``, ``docker``, ``podman``, ``kubernetes``,
    # ``lxc``, ``vm`` …, outermost first.
    surroundings: tuple[str, ...] = ()
    gpus: tuple[
        Gpu, ...
    ] = ()  # display and compute devices, in the order of their PCI addresses
    runtimes: Runtimes = field(default_factory=Runtimes)
    system: System = field(default_factory=System)
    user: User | None = None  # the user of this process; None on Windows
    # Environment variables that change what a GPU program sees or loads.
    variables: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # facts that do not fit together
    elsewhere: str = ""  # where to go with a platform that no target is for


def host_layers(host: Host) -> dict[str, str]:
    """Return the layers that an upgrade can change, each with its version."""
    # Layers are the kernel, the machine's firmware, each GPU with its driver, and the runtime
    # libraries of the system.
    found = {"platform": host.platform, "kernel": host.kernel}
    if host.firmware:
        found["firmware"] = host.firmware
    for gpu in host.gpus:
        found[f"GPU {gpu.address}"] = gpu.name
        if gpu.driver:
            # i915 and xe have no version of their own: they change with the kernel.
            found[f"driver {gpu.driver.name}"] = gpu.driver.version or host.kernel
    runtimes = {
        "Level Zero loader": host.runtimes.level_zero,
        "compute-runtime": host.runtimes.compute_runtime,
        "OpenCL": ", ".join(host.runtimes.opencl) or None,
        "CUDA driver library": host.runtimes.cuda,
    }
    return found | {
        name: version for name, version in runtimes.items() if version is not None
    }
