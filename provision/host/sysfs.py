"""GPUs from Linux's sysfs: the devices of the PCI bus with their drivers and links."""

from __future__ import annotations

import dataclasses
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.host import permissions
from provision.host.model import Driver, Gpu, Link

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.host.machine import Machine
    from provision.host.model import Host, Node
    from provision.host.root import Root

VENDORS = {"8086": "intel", "10de": "nvidia", "1002": "amd"}
_DEVICES = "sys/bus/pci/devices"
# 03xx: display controllers, Max and H100 included; 1200: processing accelerators.
_GPU_CLASS = re.compile(r"0x(03|1200)[0-9a-f]*", re.IGNORECASE)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Without resizable BAR a card maps its memory through a window of 256 MiB.
_WINDOW = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """One PCI device as sysfs describes it."""

    address: str
    vendor_id: str
    device_id: str
    driver: str
    driver_version: str
    drm: tuple[str, ...]
    bars: tuple[int, ...]
    link: Link | None


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with the display and compute devices of its PCI bus, by address."""
    groups = permissions.group_names(machine.root)
    nvidia_number = itertools.count()
    gpus = []
    for entry in entries(machine.root):
        paths = [f"/dev/dri/{name}" for name in entry.drm if name.startswith("renderD")]
        # NVIDIA's driver has device files of its own, numbered in bus order.
        if entry.driver == "nvidia":
            paths = ["/dev/nvidiactl", f"/dev/nvidia{next(nvidia_number)}"]
        nodes = permissions.nodes(machine.root, paths, host.user, groups) if host.user else ()
        gpus.append(parse(entry, machine.devices, nodes))
    if "wsl" in host.surroundings:
        gpus = [gpu for gpu in gpus if gpu.vendor != "other"]  # Microsoft's paravirtual display
    return dataclasses.replace(host, gpus=tuple(gpus))


def entries(root: Root) -> list[Entry]:
    """Return the display and compute devices of the PCI bus, by address."""
    return [_entry(root, address) for address in root.names(_DEVICES) if _is_gpu(root, address)]


def _is_gpu(root: Root, address: str) -> bool:
    kind = root.text(f"{_DEVICES}/{address}/class")
    return bool(_ADDRESS.fullmatch(address) and _GPU_CLASS.fullmatch(kind))


def _entry(root: Root, address: str) -> Entry:
    folder = f"{_DEVICES}/{address}"
    driver = root.target(f"{folder}/driver")
    return Entry(
        address=address,
        vendor_id=_hex(root.text(f"{folder}/vendor")),
        device_id=_hex(root.text(f"{folder}/device")),
        driver=driver,
        driver_version=root.text(f"sys/module/{driver}/version") if driver else "",
        drm=tuple(n for n in root.names(f"{folder}/drm") if n.startswith(("card", "renderD"))),
        bars=bars(root.text(f"{folder}/resource")),
        link=link(root, _port(root, folder)),
    )


def _port(root: Root, folder: str) -> str:
    """Return the folder of the device whose PCI Express link is the card's.

    An Arc card is a PCI Express switch with the GPU behind it, and the GPU's own link always
    reports 2.5 GT/s x1 (https://github.com/Syllo/nvtop/pull/344). The link that counts is that of
    the card's topmost bridge, the last one of the same vendor below the root port.
    """
    vendor, port = root.text(f"{folder}/vendor"), folder
    for parent in root.above(folder):
        if parent.parent.name.startswith("pci") or not _ADDRESS.fullmatch(parent.name):
            break  # the root port belongs to the processor
        if root.text(f"{parent}/vendor") != vendor:
            break
        port = str(parent)
    return port


def link(root: Root, folder: str) -> Link | None:
    """Return the PCI Express link of a device's folder, or None if it has none."""
    # Some kernels append "PCIe" to "16.0 GT/s".
    speed = root.text(f"{folder}/current_link_speed").removesuffix(" PCIe")
    width = _number(root.text(f"{folder}/current_link_width"))
    if not width or not speed or speed == "Unknown":
        return None
    max_speed = root.text(f"{folder}/max_link_speed").removesuffix(" PCIe")
    max_width = _number(root.text(f"{folder}/max_link_width"))
    return Link(speed, width, max_speed or speed, max_width or width)


def bars(resource: str) -> tuple[int, ...]:
    """Return the sizes in bytes of the memory windows in a ``resource`` file, largest first.

    Each line is: start, end, flags, in hexadecimal
    (https://docs.kernel.org/PCI/sysfs-pci.html).
    """
    sizes = []
    # Six BARs; the expansion ROM and a bridge's windows follow.
    for line in resource.splitlines()[:6]:
        numbers = [_number(word, 16) for word in line.split()]
        if len(numbers) == 3 and numbers[1] > numbers[0]:
            sizes.append(numbers[1] - numbers[0] + 1)
    return tuple(sorted(sizes, reverse=True))


def parse(entry: Entry, devices: Devices, nodes: tuple[Node, ...] = ()) -> Gpu:
    """Return an entry as a GPU, completed from the device catalog."""
    vendor = VENDORS.get(entry.vendor_id, "other")
    known = devices.find(vendor, entry.device_id)
    # A GPU in the processor has neither a slot nor memory of its own behind a window.
    discrete = known is not None and not known.integrated
    return Gpu(
        vendor=vendor,
        device_id=entry.device_id,
        name=known.name if known else f"{vendor} {entry.vendor_id}:{entry.device_id}",
        address=entry.address,
        family=known.family if known else None,
        supported=known.supported if known else False,
        integrated=known.integrated if known else None,
        compute_capability=known.compute_capability if known else None,
        driver=Driver(entry.driver, entry.driver_version or None) if entry.driver else None,
        nodes=nodes,
        link=entry.link if discrete else None,
        resizable_bar=entry.bars[0] > _WINDOW if discrete and entry.bars else None,
        tiles=known.tiles if known else 1,
    )


def _hex(text: str) -> str:
    digits = text.lower().removeprefix("0x")
    return digits if re.fullmatch(r"[0-9a-f]{4}", digits) else ""


def _number(text: str, base: int = 10) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0
