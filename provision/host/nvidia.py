"""NVIDIA's GPUs and driver: from NVML where it loads, else from ``/proc``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.host.driver_versions import numbers_of
from provision.host.model import Driver, Gpu, Host

if TYPE_CHECKING:
    from provision.host.root import Machine, Root

_CUDA = re.compile(r"libcuda\.so\.(\d{3,}(?:\.\d+)+)")


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as NVIDIA's own tools describe it."""

    address: str
    name: str
    driver: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with NVIDIA's user-mode driver, and its GPUs completed by NVIDIA's tools."""
    gpus = merge(host.gpus, _cards(machine.root, host))
    module = next((g.driver.version for g in gpus if g.vendor == "nvidia" and g.driver), None)
    library = cuda_version(machine.libraries)
    remarks = host.remarks
    # libcuda refuses to work with a kernel module of another version.
    if module and library and module != library:
        versions = f"NVIDIA's kernel module is {module} but its library {library}"
        remarks += (f"{versions}: an update waits for a restart",)
    runtimes = dataclasses.replace(host.runtimes, cuda=library)
    return dataclasses.replace(host, gpus=tuple(gpus), runtimes=runtimes, remarks=remarks)


def _cards(root: Root, host: Host) -> list[Card]:
    # Without a GPU of NVIDIA's no library of theirs is loaded and no process started. In WSL the
    # bus shows none: there /dev/dxg says that there may be one.
    if not any(gpu.vendor == "nvidia" for gpu in host.gpus) and not root.exists("dev/dxg"):
        return []
    # /proc has neither memory nor compute capability.
    return (probe_nvml() if root.live else []) or probe_proc(root)


def probe_nvml() -> list[Card]:
    """Ask NVIDIA's management library; an empty list where it does not load or fails."""
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - only where there is a GPU

    try:
        pynvml.nvmlInit()
        try:
            driver = pynvml.nvmlSystemGetDriverVersion()
            handles = [
                pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())
            ]
            return [
                Card(
                    address=_address(pynvml.nvmlDeviceGetPciInfo(handle).busId),
                    name=pynvml.nvmlDeviceGetName(handle),
                    driver=driver,
                    memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
                    compute_capability="{}.{}".format(
                        *pynvml.nvmlDeviceGetCudaComputeCapability(handle)
                    ),
                )
                for handle in handles
            ]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []


def probe_proc(root: Root) -> list[Card]:
    """Return the GPUs that the kernel module lists under ``/proc/driver/nvidia``."""
    folder = "proc/driver/nvidia/gpus"
    found = []
    for address in root.names(folder):
        model = re.search(r"^Model:\s*(.+)$", root.text(f"{folder}/{address}/information"), re.M)
        if model:
            found.append(Card(address, model[1].strip()))
    return found


def merge(gpus: Sequence[Gpu], cards: Sequence[Card]) -> list[Gpu]:
    """Return the GPUs completed by NVIDIA's tools; those that the bus lacks are appended.

    In WSL, and in some containers, only NVIDIA's library sees the GPUs.
    """
    # By address: NVML guarantees no order of its indexes (nvmlDeviceGetHandleByIndex).
    by_address = {card.address: card for card in cards}
    merged = [
        _completed(gpu, by_address.pop(gpu.address)) if gpu.address in by_address else gpu
        for gpu in gpus
    ]
    for card in by_address.values():
        # Without a device id the catalog cannot be asked; the capability decides, if it is known.
        known = card.compute_capability is not None
        bare = Gpu("nvidia", "", card.name, card.address, supported=known, integrated=False)
        merged.append(_completed(bare, card))
    return merged


def _completed(gpu: Gpu, card: Card) -> Gpu:
    driver = gpu.driver or Driver("nvidia")
    return dataclasses.replace(
        gpu,
        name=card.name,
        driver=Driver(driver.name, card.driver or driver.version),
        memory_bytes=card.memory_bytes,
        compute_capability=card.compute_capability or gpu.compute_capability,
    )


def cuda_version(names: Sequence[str]) -> str | None:
    """Return the version of ``libcuda`` among library names; "" if no name shows it."""
    versions = [match[1] for name in names if (match := _CUDA.fullmatch(name))]
    if versions:
        return max(versions, key=numbers_of)
    return "" if "libcuda.so.1" in names else None


def _address(text: str | bytes) -> str:
    """Return ``00000000:01:00.0`` as sysfs writes it: ``0000:01:00.0``."""
    plain = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    match = re.fullmatch(r"0{0,4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", plain.lower())
    return match[1] if match else ""
