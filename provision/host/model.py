"""What a machine is: its GPUs, drivers, runtimes and rights, as plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Driver:
    """The kernel driver that a GPU is bound to.

    Attributes:
        name: ``i915``, ``xe``, ``nvidia``, ``dxg`` …; on Windows the provider's name.
        version: Its own version; None where it has none apart from the kernel's.
    """

    name: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A device file through which programs reach a GPU.

    Attributes:
        path: For instance ``/dev/dri/renderD128``.
        group: Name or number of the group that owns it; "" where the file is absent.
        present: Whether the file is there; a container may see a GPU and lack its file.
        usable: Whether this user may read and write it.
    """

    path: str
    group: str = ""
    present: bool = True
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Link:
    """The PCI Express link of a card: transfer rate as the system writes it, and lanes."""

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
        name: What a person calls it.
        address: PCI address; what stands in its place where there is none.
        family: Family of ``envs/catalog/devices.toml``; None if the id is not listed there.
        supported: Whether PyTorch's wheels know this family.
        integrated: Whether it is part of the processor; None if unknown.
        compute_capability: NVIDIA's, for instance ``8.6``.
        driver: The kernel driver it is bound to; None if to none.
        nodes: Device files through which it is reached.
        memory_bytes: Its own memory, where the system tells.
        link: Its PCI Express link; None for integrated ones.
        resizable_bar: Whether the whole memory is mapped at once; None if it does not apply.
        tiles: How many devices the runtime makes of it.
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
    """Libraries of the system, outside any environment, that reach a GPU.

    Attributes:
        level_zero: Version of the Level Zero loader; "" if it is there without one.
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
    """Who runs this process."""

    name: str
    uid: int
    gids: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, as one user of it sees it.

    Attributes:
        platform: conda's name of the platform, for instance ``linux-64``.
        kernel: Release of the kernel or build of Windows.
        firmware: Version of the machine's firmware (UEFI or BIOS), "" where it is hidden.
        surroundings: What lies between the machine and this process: ``wsl``, ``docker``,
            ``podman``, ``kubernetes``, ``lxc``, ``vm`` …, outermost first.
        gpus: Display and compute devices, in the order of their PCI addresses.
        runtimes: Libraries of the system that reach a GPU.
        user: Who runs this process; None on Windows.
        variables: Environment variables that change what a GPU program sees or loads.
        remarks: What could not be read, and what does not go together.
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
    """Return what an upgrade can change on a machine: layer to version, comparable as it is.

    Layers are the kernel, the machine's firmware, each GPU with its driver, and the runtime
    libraries of the system.
    """
    found = {"platform": host.platform, "kernel": host.kernel}
    if host.firmware:
        found["firmware"] = host.firmware
    for gpu in host.gpus:
        found[f"GPU {gpu.address}"] = gpu.name
        if gpu.driver:
            found[f"driver {gpu.driver.name}"] = gpu.driver.version or host.kernel
    runtimes = {
        "Level Zero loader": host.runtimes.level_zero,
        "compute-runtime": host.runtimes.compute_runtime,
        "OpenCL": ", ".join(host.runtimes.opencl) or None,
        "CUDA driver library": host.runtimes.cuda,
    }
    return found | {name: version for name, version in runtimes.items() if version is not None}
