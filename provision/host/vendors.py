"""The vendors whose GPUs programs compute with: a module each, and what each has to offer."""

from importlib import import_module
from pathlib import Path

from provision.core.platforms import ACCELERATORS, VENDORS
from provision.environment.reading import read_text
from provision.host.model import Host

# Of each vendor with a kernel driver, a module of its name: it has probe(machine, host),
# hidden(host) and occupants(notes, proc).
MODULES = {
    name: import_module(f"provision.host.{name}")
    for name, vendor in VENDORS.items()
    if vendor.module
}


def hidden(host: Host) -> dict[str, str]:
    """Return the hidden GPUs: address to ``NAME=value`` of the variable that hides it."""
    covered: dict[str, str] = {}
    for module in MODULES.values():
        covered |= module.hidden(host)
    return covered


def occupants(accelerator: str, notes: set[str]) -> list[str]:
    """Return who computes on GPUs of a kind; adds to the notes what cannot be read."""
    module = MODULES[ACCELERATORS[accelerator].vendor]
    proc = Path("/proc")
    programs = []
    for process in module.occupants(notes, proc):
        name = read_text(proc / process / "comm").strip() or "?"
        programs.append(f"{name} (process {process})")
    return programs
