"""Which processes compute on the GPUs of this machine now; a desktop that only draws is none."""

import re
from pathlib import Path

from provision.environment.reading import read_text

# Time or cycles on the compute engines: https://docs.kernel.org/gpu/drm-usage-stats.html
_COMPUTE = re.compile(r"^drm-(?:engine-compute|cycles-ccs):\s*(\d+)", re.MULTILINE)
_INTEL = re.compile(r"^drm-driver:\s*(?:i915|xe)$", re.MULTILINE)


def occupants(
    accelerator: str, notes: set[str], proc: Path = Path("/proc")
) -> list[str]:
    """Return who computes on GPUs of a kind; adds to the notes what cannot be read."""
    found = (_of_nvml if accelerator == "cuda" else _of_intel)(notes, proc)
    return [
        f"{read_text(proc / pid / 'comm').strip() or '?'} (process {pid})"
        for pid in found
    ]


def _of_nvml(notes: set[str], _: Path) -> list[str]:
    import pynvml  # type: ignore[import-untyped]  # noqa: PLC0415 - only where it is asked

    try:
        pynvml.nvmlInit()
        cards = [
            pynvml.nvmlDeviceGetHandleByIndex(n)
            for n in range(pynvml.nvmlDeviceGetCount())
        ]
        users = map(pynvml.nvmlDeviceGetComputeRunningProcesses, cards)
        return sorted({str(user.pid) for some in users for user in some})
    except pynvml.NVMLError as error:
        notes.add(f"whether the device is idle is not measured: NVML says {error}")
        return []


def _of_intel(notes: set[str], proc: Path) -> list[str]:
    found = []
    for process in proc.glob("[0-9]*"):
        try:
            texts = map(read_text, list((process / "fdinfo").iterdir()))
        except PermissionError:
            notes.add(
                "processes of other users are not seen: only root may read their fdinfo"
            )
            continue
        except OSError:  # it ended
            continue
        clients = [_COMPUTE.findall(text) for text in texts if _INTEL.search(text)]
        if any(int(used) for client in clients for used in client):
            found.append(process.name)
        elif clients and not any(clients):
            notes.add(
                f"this kernel does not tell whether process {process.name} computes"
            )
    if not proc.is_dir():
        notes.add(
            "whether the device is idle is not measured: this system does not tell"
        )
    return sorted(found)
