"""Say which flag ``docker run`` lacks for the image's device, then become the command.

Groups of device nodes differ between hosts, so they are read here and never written into an image.
"""

from __future__ import annotations

import glob
import json
import os
import sys

EXPECT = "/opt/provision/expect.json"
# WSL has one node for the GPUs of every maker.
NODES = {
    "xpu": ("/dev/dri/renderD*", "/dev/dxg"),
    "cuda": ("/dev/nvidiactl", "/dev/nvidia[0-9]*", "/dev/dxg"),
}
FLAGS = {
    "xpu": '--device /dev/dri --group-add "$(stat -c %g /dev/dri/renderD128)"',
    "cuda": "--gpus all",
}


def nodes(accelerator: str, root: str = "") -> list[str]:
    """Return the device nodes of an accelerator that this container was given."""
    patterns = NODES.get(accelerator, ())
    return sorted(path for pattern in patterns for path in glob.glob(root + pattern))  # noqa: PTH207


def missing(accelerator: str, found: list[str]) -> str | None:
    """Return which flag ``docker run`` lacks and why, or None where nothing is."""
    if accelerator not in NODES:
        return None
    if not found:
        where = " or ".join(NODES[accelerator])
        return f"no {where} in this container; start it with: {FLAGS[accelerator]}"
    if any(os.access(node, os.R_OK | os.W_OK) for node in found):
        return _hidden_driver(accelerator)
    groups = sorted({os.stat(node).st_gid for node in found})  # noqa: PTH116
    flags = " ".join(f"--group-add {group}" for group in groups)
    return f"user {os.getuid()} may not open {', '.join(found)}; start it with: {flags}"


def _hidden_driver(accelerator: str) -> str | None:
    """Return what a setting of NVIDIA's container toolkit hides from the checks, or None."""
    given = os.environ.get("NVIDIA_DRIVER_CAPABILITIES", "all")
    if accelerator != "cuda" or {"all", "utility"} & set(given.split(",")):
        return None
    return (
        f"NVIDIA_DRIVER_CAPABILITIES={given} leaves out NVML, so the driver's version is unknown; "
        "start it with: --env NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    )


def main(command: list[str]) -> None:
    """Warn if need be, then run the command in this very process."""
    with open(EXPECT, encoding="utf-8") as stream:  # noqa: PTH123
        accelerator = json.load(stream)["accelerator"]
    if words := missing(accelerator, nodes(accelerator)):
        sys.stderr.write(f"{accelerator}: {words}\n")
        sys.stderr.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
