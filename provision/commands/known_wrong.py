"""What the catalog knows to be wrong on this machine with a target's torch."""

from pathlib import Path

from provision.catalog.devices import read_devices
from provision.core.project import Project
from provision.host.known_wrong import known_wrong
from provision.host.model import Host
from provision.lockfile.pip import read_lock


def locked_torch(lock: Path) -> str:
    """Return the release of torch in a lock, "" where there is no lock or no torch in it."""
    return read_lock(lock).versions.get("torch", "") if lock.is_dir() else ""


def known_wrong_here(project: Project, host: Host, torch: str) -> list[str]:
    """Return one line for each pair of torch and driver of this machine whose numbers are wrong."""
    if not torch or not any(gpu.vendor == "intel" for gpu in host.gpus):
        return []
    return known_wrong(torch, host, read_devices(project.catalog))
