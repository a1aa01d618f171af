"""What NVIDIA's management library says of GPUs and of the processes that use them."""

from typing import Any

import pynvml  # type: ignore[import-untyped]

from provision.host.model import NvidiaCard


def probe_nvml() -> list[NvidiaCard]:
    """Return the GPUs that the library lists; none where it does not load or fails."""
    try:
        pynvml.nvmlInit()
        return list(map(_card, _handles()))
    except pynvml.NVMLError:
        return []


def computing(notes: set[str]) -> list[str]:
    """Return the processes that compute; adds to the notes where the library does not tell."""
    processes = set()
    try:
        pynvml.nvmlInit()
        for handle in _handles():
            for user in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                processes.add(str(user.pid))
    except pynvml.NVMLError as error:
        notes.add(f"whether the device is idle is not measured: NVML says {error}")
        return []
    return sorted(processes)


def _handles() -> list[Any]:
    count = pynvml.nvmlDeviceGetCount()
    return [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]


def _card(handle: Any) -> NvidiaCard:  # noqa: ANN401 - an opaque handle of NVML
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return NvidiaCard(
        _address(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        pynvml.nvmlDeviceGetName(handle),
        pynvml.nvmlSystemGetDriverVersion(),
        int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        f"{major}.{minor}",
    )


def _address(text: str | bytes) -> str:
    """Return ``00000000:01:00.0`` as sysfs writes it: ``0000:01:00.0``."""
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    return text.lower()[-len("0000:01:00.0") :]
