"""Layers between the machine and this process: WSL, virtual machines, containers."""

import re
from collections.abc import Mapping
from dataclasses import replace

from provision.host.model import Host
from provision.host.root import TABLES, Machine, Root


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with its surroundings."""
    layers = surroundings(machine.root, machine.environ)
    host = replace(host, surroundings=layers)
    if "wsl" not in layers or machine.root.exists("dev/dxg"):
        return host
    remedy = "run `wsl --update`"
    if len(layers) > 1:
        remedy = "start the container with --gpus all"
    remark = f"WSL shows no GPU: /dev/dxg is absent; {remedy}"
    return replace(host, remarks=(remark,))


def surroundings(root: Root, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the layers around this process, outermost first."""
    containers = tuple(_containers(root, environ))
    if "microsoft" in root.text("proc/sys/kernel/osrelease").lower():
        return ("wsl", *containers)
    if _is_virtual(root):
        return ("vm", *containers)
    return containers


def _is_virtual(root: Root) -> bool:
    vendor = root.text("sys/class/dmi/id/sys_vendor")
    product = root.text("sys/class/dmi/id/product_name")
    # The first processor is enough: with hundreds of them the file is megabytes long.
    cpuinfo = root.text("proc/cpuinfo", 8192)
    if re.search(r"^flags\s*:.* hypervisor", cpuinfo, re.MULTILINE):
        return True
    if re.search(TABLES["virtual"], f"{vendor} {product}", re.IGNORECASE):
        return True
    return root.exists("sys/hypervisor/type")


def _containers(root: Root, environ: Mapping[str, str]) -> list[str]:
    # With cgroup v2 the path is often only "/", hence the marker files below.
    groups = root.text("proc/1/cgroup")
    layers = []
    if "KUBERNETES_SERVICE_HOST" in environ:
        layers.append("kubernetes")
    for word, name in TABLES["containers"].items():
        if word in groups:
            layers.append(name)
    for path, name in TABLES["markers"].items():
        if root.exists(path):
            layers.append(name)
    if "APPTAINER_CONTAINER" in environ:
        layers.append("apptainer")
    return list(dict.fromkeys(layers))
