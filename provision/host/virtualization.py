"""Layers between the machine and this process: WSL, virtual machines, containers."""

import dataclasses
import re
from collections.abc import Mapping

from provision.host.model import Host
from provision.host.root import TABLES, Machine, Root


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with its surroundings."""
    around = surroundings(machine.root, machine.environ)
    host = dataclasses.replace(host, surroundings=around)
    if around[:1] != ("wsl",) or machine.root.exists("dev/dxg"):
        return host
    here = "start the container with --gpus all" if around[1:] else "run `wsl --update`"
    return dataclasses.replace(
        host, remarks=(f"WSL shows no GPU: /dev/dxg is absent; {here}",)
    )


def surroundings(root: Root, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the layers around this process, outermost first."""
    release = root.text("proc/sys/kernel/osrelease").lower()
    machine = "wsl" if "microsoft" in release else "vm" if _is_virtual(root) else ""
    return (*filter(None, [machine]), *_containers(root, environ))


def _is_virtual(root: Root) -> bool:
    dmi = f"{root.text('sys/class/dmi/id/sys_vendor')} {root.text('sys/class/dmi/id/product_name')}"
    # The first processor is enough: with hundreds of them the file is megabytes long.
    flags = re.search(r"^flags\s*:(.*)$", root.text("proc/cpuinfo", 8192), re.MULTILINE)
    flagged = flags and " hypervisor" in flags[1]
    known = re.search(TABLES["virtual"], dmi, re.IGNORECASE)
    return bool(known or root.text("sys/hypervisor/type") or flagged)


def _containers(root: Root, environ: Mapping[str, str]) -> list[str]:
    # With cgroup v2 the path is often only "/", hence the marker files below.
    groups = root.text("proc/1/cgroup")
    found = [name for word, name in TABLES["containers"].items() if word in groups]
    if "KUBERNETES_SERVICE_HOST" in environ:
        found.insert(0, "kubernetes")
    found += [name for path, name in TABLES["markers"].items() if root.exists(path)]
    found += ["apptainer"] if "APPTAINER_CONTAINER" in environ else []
    return list(dict.fromkeys(found))
