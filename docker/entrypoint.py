"""Say which flag ``docker run`` lacks for the image's device, then become the command.

Groups of device nodes differ between hosts, so they are read here and never written into an image.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import Any

DEVICE = (
    "/opt/provision/device.json"  # the target's row of provision/core/platforms.toml
)


def nodes(device: dict[str, Any], root: str = "") -> list[str]:
    """Return the device nodes of the target's accelerator that this container was given."""
    patterns = device["nodes"]
    return sorted(path for pattern in patterns for path in glob.glob(root + pattern))  # noqa: PTH207


def missing(device: dict[str, Any], found: list[str]) -> str | None:
    """Return which flag ``docker run`` lacks and why, or None where nothing is."""
    if not device["nodes"]:
        return None
    if not found:
        where = " or ".join(device["nodes"])
        return f"no {where} in this container; start it with: {device['container']}"
    if any(os.access(node, os.R_OK | os.W_OK) for node in found):
        return _hidden_driver(device)
    groups = sorted({os.stat(node).st_gid for node in found})  # noqa: PTH116
    flags = " ".join(f"--group-add {group}" for group in groups)
    return f"user {os.getuid()} may not open {', '.join(found)}; start it with: {flags}"


def _hidden_driver(device: dict[str, Any]) -> str | None:
    """Return what a setting of NVIDIA's container toolkit hides from the checks, or None."""
    name = "NVIDIA_DRIVER_CAPABILITIES"
    given = os.environ.get(name, "all")
    if name not in device["variables"] or {"all", "utility"} & set(given.split(",")):
        return None
    return (
        f"{name}={given} leaves out NVML, so the driver's version is unknown; "
        f"start it with: --env {name}={device['variables'][name]}"
    )


def main(command: list[str]) -> None:
    """Warn if need be, then run the command in this very process."""
    with open(DEVICE, encoding="utf-8") as stream:  # noqa: PTH123
        device = json.load(stream)
    if words := missing(device, nodes(device)):
        sys.stderr.write(f"{device['accelerator']}: {words}\n")
        sys.stderr.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
