"""NVIDIA's GPUs and driver: from NVML where it loads, else from procfs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from provision.host.driver_versions import numbers_of
from provision.host.model import Driver, Gpu, Host, NvidiaCard
from provision.host.root import Machine, Root

# What NVIDIA_VISIBLE_DEVICES names where it gives no device.
_NONE = {"none", "void", "no"}
_CUDA, _NVML = "libcuda.so.1", "libnvidia-ml.so.1"


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with NVIDIA's user-mode driver, and its GPUs completed by NVIDIA's tools."""
    gpus = merge(host.gpus, _cards(machine.root, host))
    runtimes = replace(
        host.runtimes, cuda=_loaded(machine, _CUDA), nvml=_loaded(machine, _NVML)
    )
    return replace(host, gpus=tuple(gpus), runtimes=runtimes)


def _loaded(machine: Machine, library: str) -> str | None:
    """Return the version of the library that programs load; see `Runtimes`."""
    version = cuda_version(machine.loaded(library), library)
    # Without a version in its name it is a copy or a mount, which works with a module of its own
    # version only.
    return module_version(machine.root) if version == "" else version


def module_version(root: Root) -> str:
    """Return the version of the kernel module that is loaded, "" if it is not visible."""
    pattern = r"Kernel Module.*?\s(\d{3,}(?:\.\d+)+)"
    module = root.search(pattern, "proc/driver/nvidia/version")
    return module[1] if module else ""


def _cards(root: Root, host: Host) -> list[NvidiaCard]:
    # Without a GPU of NVIDIA's no library of theirs is loaded. In WSL the bus shows none: there
    # /dev/dxg says that there may be one.
    on_bus = any(gpu.vendor == "nvidia" for gpu in host.gpus)
    cards = []
    if root.live and (on_bus or root.exists("dev/dxg")):
        # It declares thousands of names, and few machines have what it asks.
        from provision.host.nvml import probe_nvml  # noqa: PLC0415

        cards = probe_nvml()
    # /proc has neither memory nor compute capability.
    return cards or probe_proc(root)


def probe_proc(root: Root) -> list[NvidiaCard]:
    """Return the GPUs that the kernel module lists under ``/proc/driver/nvidia``."""
    folder = "proc/driver/nvidia/gpus"
    driver = module_version(root) or None
    cards = []
    for address in root.names(folder):
        model = root.search(r"^Model:\s*(.+)$", f"{folder}/{address}/information")
        if model:
            cards.append(NvidiaCard(address, model[1].strip(), driver))
    return cards


def merge(gpus: Sequence[Gpu], cards: Sequence[NvidiaCard]) -> list[Gpu]:
    """Return the GPUs completed by NVIDIA's tools; those that the bus lacks are appended."""
    # In WSL, and in some containers, only NVIDIA's library sees the GPUs.
    # By address: NVML guarantees no order of its indexes (nvmlDeviceGetHandleByIndex).
    rest = {card.address: card for card in cards}
    merged = []
    for gpu in gpus:
        card = rest.pop(gpu.address, None)
        merged.append(_completed(gpu, card) if card else gpu)
    for card in rest.values():
        # Without a device id the catalog cannot be asked; the capability decides, if it is known.
        bare = Gpu("nvidia", "", card.name, card.address, integrated=False)
        merged.append(_completed(bare, card))
    return merged


def _completed(gpu: Gpu, card: NvidiaCard) -> Gpu:
    driver = gpu.driver or Driver("nvidia")
    return replace(
        gpu,
        name=card.name,
        driver=Driver(driver.name, card.driver or driver.version),
        memory_bytes=card.memory_bytes,
        supported=gpu.supported or card.compute_capability is not None,
        compute_capability=card.compute_capability or gpu.compute_capability,
    )


def cuda_version(names: Sequence[str], library: str = _CUDA) -> str | None:
    """Return the version of a library of NVIDIA's among names; "" if no name shows it."""
    version = "" if library in names else None
    for name in names:
        number = name.removeprefix(library[:-1])
        if name != number and re.fullmatch(r"\d{3,}(?:\.\d+)+", number):
            version = max(version or "", number, key=numbers_of)
    return version


def occupants(notes: set[str], _proc: Path) -> list[str]:
    """Return the processes that compute; adds to the notes where NVML does not tell."""
    from provision.host.nvml import computing  # noqa: PLC0415 - as above

    return computing(notes)


def hidden(host: Host) -> dict[str, str]:
    """Return the GPUs that a variable hides: address to ``NAME=value``."""
    addresses = [gpu.address for gpu in host.gpus if gpu.vendor == "nvidia"]
    value = host.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    # Only NVIDIA's container runtime reads this variable.
    if host.surroundings and value.strip().lower() in _NONE:
        return dict.fromkeys(addresses, f"NVIDIA_VISIBLE_DEVICES={value}")
    visible = host.variables.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return {}
    numbers = _cuda_numbers(visible)
    models = {gpu.device_id for gpu in host.gpus if gpu.vendor == "nvidia"}
    by_bus = host.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if numbers is None or (numbers and len(models) > 1 and not by_bus):
        # By UUID, or numbered by speed (CUDA's default order for unlike GPUs): neither is known
        # here, and a wrong "hidden" would be worse than none.
        return {}
    covered = {}
    for number, address in enumerate(addresses):
        if number not in numbers:
            covered[address] = f"CUDA_VISIBLE_DEVICES={visible}"
    return covered


def _cuda_numbers(visible: str) -> set[int] | None:
    """Return the numbers before the first invalid one, as CUDA does; None for UUIDs."""
    numbers = set()
    for word in visible.split(","):
        if word.strip().upper().startswith(("GPU-", "MIG-")):
            return None
        if not word.strip().isdecimal():
            break
        numbers.add(int(word))
    return numbers
