"""The model of a host: GPUs, drivers, runtimes and permissions, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Driver:
    """The kernel driver that a GPU is bound to."""

    name: str  # ``i915``, ``xe``, ``nvidia``, ``dxg`` …; on Windows the provider's name
    version: str | None = None  # its own version; None where it only has the kernel's


@dataclass(frozen=True, slots=True)
class Node:
    """A device file through which programs reach a GPU.

    Attributes:
        path: For instance ``/dev/dri/renderD128``.
        group: Name or number of the owning group; "" where the file is absent.
        present: Whether it exists; a container can show a GPU in sysfs and lack its device file.
        usable: Whether the user may read and write it.
    """

    path: str
    group: str = ""
    present: bool = True
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Link:
    """The PCI Express link of a GPU: transfer rates as sysfs writes them, and lanes."""

    speed: str
    width: int
    max_speed: str
    max_width: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        vendor: ``intel``, ``nvidia``, ``amd`` or ``other``.
        device_id: PCI device id, four hexadecimal digits; "" where the system hides it.
        name: Marketing name, or vendor and device id.
        address: PCI address; another unique id where there is none.
        family: Family in ``envs/catalog/devices.toml``; None if the device id is not listed.
        supported: Whether PyTorch's wheels support this family.
        integrated: Whether it is part of the processor; None if unknown.
        compute_capability: CUDA compute capability, for instance ``8.6``.
        driver: The kernel driver it is bound to, if any.
        nodes: Device files of the GPU.
        memory_bytes: Dedicated memory, where the system reports it.
        link: PCI Express link; None for integrated GPUs.
        resizable_bar: Whether all memory is mapped at once; None if it does not apply.
        tiles: Number of devices that the runtime shows for it.
    """

    vendor: str
    device_id: str
    name: str
    address: str
    family: str | None = None
    supported: bool = False
    integrated: bool | None = None
    compute_capability: str | None = None
    driver: Driver | None = None
    nodes: tuple[Node, ...] = ()
    memory_bytes: int | None = None
    link: Link | None = None
    resizable_bar: bool | None = None
    tiles: int = 1


@dataclass(frozen=True, slots=True)
class Runtimes:
    """GPU libraries of the system, outside any environment.

    Attributes:
        level_zero: Version of the Level Zero loader; "" if it is installed without a visible one.
        compute_runtime: Version of Intel's user-mode driver, ``<release>.<build>``.
        opencl: Libraries named by the OpenCL ICD files.
        cuda: Version of NVIDIA's user-mode driver, ``libcuda``.
    """

    level_zero: str | None = None
    compute_runtime: str | None = None
    opencl: tuple[str, ...] = ()
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class User:
    """The user of a process."""

    name: str
    uid: int
    gids: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, as one of its users sees it.

    Attributes:
        platform: conda's name of the platform, for instance ``linux-64``.
        kernel: Release of the kernel or build of Windows.
        firmware: Version of the firmware (UEFI or BIOS), "" where it is hidden.
        surroundings: Layers between the machine and this process: ``wsl``, ``docker``,
            ``podman``, ``kubernetes``, ``lxc``, ``vm`` …, outermost first.
        gpus: Display and compute devices, in the order of their PCI addresses.
        runtimes: GPU libraries of the system.
        user: The user of this process; None on Windows.
        variables: Environment variables that change what a GPU program sees or loads.
        remarks: Facts that do not fit together.
    """

    platform: str
    kernel: str
    firmware: str = ""
    surroundings: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    runtimes: Runtimes = field(default_factory=Runtimes)
    user: User | None = None
    variables: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def host_layers(host: Host) -> dict[str, str]:
    """Return the layers that an upgrade can change, each with its version.

    Layers are the kernel, the machine's firmware, each GPU with its driver, and the runtime
    libraries of the system.
    """
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
    return found | {name: version for name, version in runtimes.items() if version is not None}
