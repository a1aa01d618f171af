"""Read the host, by one probe after the other."""

import os
import platform
import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from provision.catalog.devices import Devices
from provision.core.platforms import ACCELERATORS, this_platform
from provision.host import macos, permissions, sysfs, system, virtualization, windows
from provision.host.model import Host, User
from provision.host.root import TABLES, Machine, Root
from provision.host.vendors import MODULES

# Beginnings of the names of the variables that are shown.
_SELECTORS = chain.from_iterable(kind.selectors for kind in ACCELERATORS.values())
_NAMES = (*TABLES["variables"], *_SELECTORS)
# Each probe returns the host with what it found added. The order counts: whether this is WSL
# decides which GPUs sysfs shows, the user decides which device files are usable, and the vendors'
# probes complete the GPUs that sysfs listed.
_LINUX = (virtualization, permissions, sysfs, *MODULES.values(), system)


def read_host(
    devices: Devices,
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    user: User | None = None,
) -> Host:
    """Read what this machine has, without torch or root rights, on a Mac by its own programs.

    Another root than ``/`` holds a recorded Linux machine; the user is who its permissions are for.
    """
    environ = os.environ if environ is None else environ
    variables = {}
    for name in sorted(environ):
        if name.upper().startswith(_NAMES):
            variables[name] = environ[name]
    machine = Machine(Root(root), devices, environ, user)
    # A recorded Linux machine can be read on Windows and on a Mac, too.
    if sys.platform == "win32" and machine.root.live:
        tree = windows.probe()
        return windows.read_windows(tree, devices, variables, platform.version())
    if sys.platform == "darwin" and machine.root.live:
        return macos.read_macos(macos.probe(), devices, variables)
    kind = this_platform()
    # NVIDIA's boards have their own torch.
    if "nvidia,tegra" in machine.root.text("proc/device-tree/compatible"):
        kind = "jetson"
    host = Host(
        platform=this_platform(),
        kernel=machine.root.text("proc/sys/kernel/osrelease"),
        firmware=machine.root.text("sys/class/dmi/id/bios_version"),
        variables=variables,
        elsewhere=devices.elsewhere.get(kind, ""),
    )
    for layer in _LINUX:
        host = layer.probe(machine, host)
    return host
