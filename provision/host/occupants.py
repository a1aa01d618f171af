"""Which processes compute on the GPUs of this machine now; a desktop that only draws is none."""

from __future__ import annotations

import re
from pathlib import Path

# Time or cycles on the compute engines, of i915 and of xe, and the PCI address of the GPU:
# https://docs.kernel.org/gpu/drm-usage-stats.html
_COMPUTE = re.compile(r"^drm-(?:engine-compute|cycles-ccs):\s*(\d+)", re.MULTILINE)
_INTEL = re.compile(r"^drm-driver:\s*(?:i915|xe)$", re.MULTILINE)


def occupants(accelerator: str, note: set[str], proc: Path = Path("/proc")) -> list[str]:
    """Return the processes that compute on GPUs of a kind; what cannot be read is noted."""
    if accelerator == "cuda":
        return _of_nvml(note, proc)
    return _of_fdinfo(note, proc)


def _of_nvml(note: set[str], proc: Path) -> list[str]:
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - only where it is asked

    try:
        pynvml.nvmlInit()
        try:
            handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
            return [
                f"{_name(proc / str(process.pid))} on {pynvml.nvmlDeviceGetName(handle)}"
                for handle in handles
                for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            ]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        note.add(f"whether the device is idle is not measured: NVML says {error}")
        return []


def _of_fdinfo(note: set[str], proc: Path) -> list[str]:
    found = set()
    for process in proc.glob("[0-9]*"):
        try:
            names = list((process / "fdinfo").iterdir())
        except PermissionError:
            note.add("processes of other users are not seen: only root may read their fdinfo")
            continue
        except OSError:  # it ended
            continue
        clients = [text for text in map(_text, names) if _INTEL.search(text)]
        if any(int(used) for text in clients for used in _COMPUTE.findall(text)):
            found.add(_name(process))
        elif clients and not any(map(_COMPUTE.search, clients)):
            note.add(f"this kernel does not tell whether {_name(process)} computes")
    if not proc.is_dir():
        note.add("whether the device is idle is not measured: this system does not tell")
    return sorted(found)


def _name(process: Path) -> str:
    program = _text(process / "comm").strip() or "a process"  # of another container
    return f"{program} (process {process.name})"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # a file that was closed meanwhile, a process that ended
        return ""
