"""The vendors whose GPUs programs compute with: a module each, and what is asked of all."""

from pathlib import Path

from provision.core.platforms import ACCELERATORS
from provision.environment.reading import read_text
from provision.host import intel, nvidia
from provision.host.model import Host

# A module has probe(machine, host), hidden(host) and occupants(notes, proc).
MODULES = {"intel": intel, "nvidia": nvidia}


def hidden(host: Host) -> dict[str, str]:
    """Return the hidden GPUs: address to ``NAME=value`` of the variable that hides it."""
    gone: dict[str, str] = {}
    for module in MODULES.values():
        gone |= module.hidden(host)
    return gone


def occupants(
    accelerator: str, notes: set[str], proc: Path = Path("/proc")
) -> list[str]:
    """Return who computes on GPUs of a kind; adds to the notes what cannot be read."""
    module = MODULES[ACCELERATORS[accelerator].vendor]
    programs = []
    for process in module.occupants(notes, proc):
        name = read_text(proc / process / "comm").strip() or "?"
        programs.append(f"{name} (process {process})")
    return programs
