"""NVIDIA's GPUs and driver: from NVML where it loads, else from ``/proc``."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from provision.host.driver_versions import numbers_of
from provision.host.model import Driver, Gpu, Host
from provision.host.root import Machine, Root

# What NVIDIA_VISIBLE_DEVICES names where it gives no device.
_NONE = {"none", "void", "no"}
_CUDA, _NVML = "libcuda.so.1", "libnvidia-ml.so.1"


class Card(NamedTuple):
    """One GPU as NVIDIA's own tools describe it."""

    address: str
    name: str
    driver: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with NVIDIA's user-mode driver, and its GPUs completed by NVIDIA's tools."""
    gpus = merge(host.gpus, _cards(machine.root, host))
    # Of several copies, one that an upgrade left for instance, the link names the one that is used.
    cuda, nvml = (cuda_version(machine.loaded(name), name) for name in (_CUDA, _NVML))
    runtimes = dataclasses.replace(host.runtimes, cuda=cuda, nvml=nvml)
    return dataclasses.replace(host, gpus=tuple(gpus), runtimes=runtimes)


def _cards(root: Root, host: Host) -> list[Card]:
    # Without a GPU of NVIDIA's no library of theirs is loaded and no process started. In WSL the
    # bus shows none: there /dev/dxg says that there may be one.
    if not any(gpu.vendor == "nvidia" for gpu in host.gpus) and not root.exists(
        "dev/dxg"
    ):
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
            numbers = range(pynvml.nvmlDeviceGetCount())
            found = []
            for handle in map(pynvml.nvmlDeviceGetHandleByIndex, numbers):
                address = _address(pynvml.nvmlDeviceGetPciInfo(handle).busId)
                memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
                capability = "{}.{}".format(
                    *pynvml.nvmlDeviceGetCudaComputeCapability(handle)
                )
                name = pynvml.nvmlDeviceGetName(handle)
                found.append(Card(address, name, driver, memory, capability))
            return found
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []


def probe_proc(root: Root) -> list[Card]:
    """Return the GPUs that the kernel module lists under ``/proc/driver/nvidia``."""
    folder = "proc/driver/nvidia/gpus"
    version = root.text("proc/driver/nvidia/version")
    module = re.search(r"Kernel Module.*?\s(\d{3,}(?:\.\d+)+)", version)
    found = []
    for address in root.names(folder):
        model = re.search(
            r"^Model:\s*(.+)$", root.text(f"{folder}/{address}/information"), re.M
        )
        if model:
            found.append(Card(address, model[1].strip(), module[1] if module else None))
    return found


def merge(gpus: Sequence[Gpu], cards: Sequence[Card]) -> list[Gpu]:
    """Return the GPUs completed by NVIDIA's tools; those that the bus lacks are appended."""
    # In WSL, and in some containers, only NVIDIA's library sees the GPUs.
    # By address: NVML guarantees no order of its indexes (nvmlDeviceGetHandleByIndex).
    rest = {card.address: card for card in cards}
    merged = [
        _completed(g, rest.pop(g.address)) if g.address in rest else g for g in gpus
    ]
    for card in rest.values():
        # Without a device id the catalog cannot be asked; the capability decides, if it is known.
        bare = Gpu("nvidia", "", card.name, card.address, integrated=False)
        merged.append(_completed(bare, card))
    return merged


def _completed(gpu: Gpu, card: Card) -> Gpu:
    driver = gpu.driver or Driver("nvidia")
    return dataclasses.replace(
        gpu,
        name=card.name,
        driver=Driver(driver.name, card.driver or driver.version),
        memory_bytes=card.memory_bytes,
        supported=gpu.supported or card.compute_capability is not None,
        compute_capability=card.compute_capability or gpu.compute_capability,
    )


def cuda_version(names: Sequence[str], library: str = _CUDA) -> str | None:
    """Return the version of a library of NVIDIA's among names; "" if no name shows it."""
    pattern = re.compile(re.escape(library[:-1]) + r"(\d{3,}(?:\.\d+)+)")
    versions = [match[1] for name in names if (match := pattern.fullmatch(name))]
    return max(versions, key=numbers_of, default="" if library in names else None)


def _address(text: str | bytes) -> str:
    """Return ``00000000:01:00.0`` as sysfs writes it: ``0000:01:00.0``."""
    plain = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    match = re.fullmatch(
        r"0{0,4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", plain.lower()
    )
    return match[1] if match else ""


def occupants(notes: set[str], _proc: Path) -> list[str]:
    """Return the processes that compute; adds to the notes where NVML does not tell."""
    import pynvml  # noqa: PLC0415 - only where there is a GPU

    try:
        pynvml.nvmlInit()
        processes = set()
        for number in range(pynvml.nvmlDeviceGetCount()):
            card = pynvml.nvmlDeviceGetHandleByIndex(number)
            for user in pynvml.nvmlDeviceGetComputeRunningProcesses(card):
                processes.add(str(user.pid))
    except pynvml.NVMLError as error:
        notes.add(f"whether the device is idle is not measured: NVML says {error}")
        return []
    return sorted(processes)


def hidden(host: Host) -> dict[str, str]:
    """Return the GPUs that a variable hides: address to ``NAME=value``."""
    cards = [gpu for gpu in host.gpus if gpu.vendor == "nvidia"]
    value = host.variables.get("NVIDIA_VISIBLE_DEVICES")
    # Only NVIDIA's container runtime reads this variable.
    if host.surroundings and value is not None and value.strip().lower() in _NONE:
        return {gpu.address: f"NVIDIA_VISIBLE_DEVICES={value}" for gpu in cards}
    visible = host.variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {}
    why = f"CUDA_VISIBLE_DEVICES={visible}"
    numbers = _cuda_numbers(visible)
    alike = len({gpu.device_id for gpu in cards}) < 2
    by_bus = host.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if numbers is None or (numbers and not alike and not by_bus):
        # By UUID, or numbered by speed (CUDA's default order for unlike GPUs): neither is known
        # here, and a wrong "hidden" would be worse than none.
        return {}
    return {gpu.address: why for i, gpu in enumerate(cards) if i not in numbers}


def _cuda_numbers(visible: str) -> set[int] | None:
    """Return the numbers before the first invalid one, as CUDA does; None for UUIDs."""
    numbers: set[int] = set()
    for word in visible.split(","):
        if word.strip().upper().startswith(("GPU-", "MIG-")):
            return None
        if not word.strip().isdecimal():
            break
        numbers.add(int(word))
    return numbers
