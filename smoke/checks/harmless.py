"""Lines that healthy stacks print and that change no result; ``harmless.json`` lists them."""

import os
import re

from smoke.engine.files import read_table

PCI_DEVICES = "/sys/bus/pci/devices"
HARMLESS = read_table(__file__, "harmless.json")["lines"]
_KNOWN = re.compile("|".join(f"(?:{line['pattern']})" for line in HARMLESS))
_SMALL_BAR = re.compile(r"Resizable BAR not detected for device (\S+)")


def sort_lines(output: str) -> tuple[list[str], list[str]]:
    """Return the harmless and the other lines of a program's output.

    Below a warning Python prints the line of source that caused it, indented.
    """
    harmless = []
    others = []
    after_warning = False
    for line in filter(str.strip, output.splitlines()):
        known = is_harmless(line)
        if known or (after_warning and line.startswith("  ")):
            harmless.append(line)
        else:
            others.append(line)
        after_warning = known
    return harmless, others


def is_harmless(line: str) -> bool:
    """Return whether a line is known to change nothing on this machine."""
    if small_bar := _SMALL_BAR.search(line):
        # With i915 copies are slower; xe drops the device (intel/compute-runtime#997, #933).
        return _kernel_driver(small_bar[1]) == "i915"
    return bool(_KNOWN.search(line))


def _kernel_driver(address: str) -> str | None:
    """Return the kernel driver of a PCI device, None where the system does not show it."""
    device = f"{PCI_DEVICES}/{address.lower().rstrip('.,')}"
    try:
        return os.readlink(f"{device}/driver").rpartition("/")[2]  # noqa: PTH115
    except OSError:
        return None
