"""What lies between the machine and this process: WSL, containers, virtual machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.host.root import Tree

_CONTAINERS = {"docker": "docker", "kubepods": "kubernetes", "libpod": "podman", "lxc": "lxc"}
# As DMI's "sys_vendor product_name" of the common hypervisors.
_MACHINES = re.compile(
    r"QEMU|KVM|VMware|VirtualBox|innotek|Xen|Bochs|Parallels|Amazon EC2|Google Compute"
    r"|OpenStack|Microsoft Corporation Virtual Machine|Virtual Machine",
    re.IGNORECASE,
)


def probe(tree: Tree, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the layers around this process, outermost first."""
    layers = []
    if is_wsl(tree):
        layers.append("wsl")
    elif _is_virtual(tree):
        layers.append("vm")
    return (*layers, *_containers(tree, environ))


def is_wsl(tree: Tree) -> bool:
    """Whether the kernel is that of the Windows Subsystem for Linux."""
    return "microsoft" in tree.text("proc/sys/kernel/osrelease").lower()


def _is_virtual(tree: Tree) -> bool:
    dmi = f"{tree.text('sys/class/dmi/id/sys_vendor')} {tree.text('sys/class/dmi/id/product_name')}"
    flags = re.search(r"^flags\s*:(.*)$", tree.text("proc/cpuinfo", 8192), re.MULTILINE)
    return bool(
        _MACHINES.search(dmi)
        or tree.text("sys/hypervisor/type")
        or (flags and " hypervisor" in flags[1])
    )


def _containers(tree: Tree, environ: Mapping[str, str]) -> list[str]:
    groups = tree.text("proc/1/cgroup")
    found = [name for word, name in _CONTAINERS.items() if word in groups]
    if "KUBERNETES_SERVICE_HOST" in environ:
        found.insert(0, "kubernetes")
    if tree.exists("run/.containerenv"):
        found.append("podman")
    if tree.exists(".dockerenv"):
        found.append("docker")
    if tree.exists(".singularity.d") or "APPTAINER_CONTAINER" in environ:
        found.append("apptainer")
    return list(dict.fromkeys(found))
