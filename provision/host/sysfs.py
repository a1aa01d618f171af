"""GPUs from Linux's sysfs: what sits on the PCI bus, which driver has it, and how it is wired."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provision.host.model import Driver, Gpu, Link

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.host.model import Node
    from provision.host.root import Tree

VENDORS = {"8086": "intel", "10de": "nvidia", "1002": "amd"}
_DEVICES = "sys/bus/pci/devices"
# 03xx display controllers (Max and H100 too), 1200 processing accelerators.
_GPU_CLASS = re.compile(r"0x(03|1200)[0-9a-f]*", re.IGNORECASE)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Without resizable BAR a card shows its memory through a window of 256 MiB.
_WINDOW = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """One PCI device as sysfs tells it."""

    address: str
    vendor_id: str
    device_id: str
    driver: str
    driver_version: str
    drm: tuple[str, ...]
    bars: tuple[int, ...]
    link: Link | None


def probe(tree: Tree) -> list[Entry]:
    """Return the display and compute devices of the PCI bus, by address."""
    return [_entry(tree, address) for address in tree.names(_DEVICES) if _is_gpu(tree, address)]


def _is_gpu(tree: Tree, address: str) -> bool:
    kind = tree.text(f"{_DEVICES}/{address}/class")
    return bool(_ADDRESS.fullmatch(address) and _GPU_CLASS.fullmatch(kind))


def _entry(tree: Tree, address: str) -> Entry:
    folder = f"{_DEVICES}/{address}"
    driver = tree.target(f"{folder}/driver")
    return Entry(
        address=address,
        vendor_id=_hex(tree.text(f"{folder}/vendor")),
        device_id=_hex(tree.text(f"{folder}/device")),
        driver=driver,
        driver_version=tree.text(f"sys/module/{driver}/version") if driver else "",
        drm=tuple(n for n in tree.names(f"{folder}/drm") if n.startswith(("card", "renderD"))),
        bars=bars(tree.text(f"{folder}/resource")),
        link=link(tree, _port(tree, folder)),
    )


def _port(tree: Tree, folder: str) -> str:
    """Return the folder whose link is the card's.

    An Arc card is a switch with the GPU behind it, and the GPU's own link always says 2.5 GT/s x1
    (https://github.com/Syllo/nvtop/pull/344). The link that counts is that of the card's topmost
    bridge, the last one of the same maker below the root port.
    """
    vendor, port = tree.text(f"{folder}/vendor"), folder
    for parent in tree.above(folder):
        if parent.parent.name.startswith("pci") or not _ADDRESS.fullmatch(parent.name):
            break  # the root port belongs to the processor
        if tree.text(f"{parent}/vendor") != vendor:
            break
        port = str(parent)
    return port


def link(tree: Tree, folder: str) -> Link | None:
    """Return the PCI Express link of a device's folder, or None if it has none."""
    speed = tree.text(f"{folder}/current_link_speed").removesuffix(" PCIe")
    width = _number(tree.text(f"{folder}/current_link_width"))
    if not width or not speed or speed == "Unknown":
        return None
    max_speed = tree.text(f"{folder}/max_link_speed").removesuffix(" PCIe")
    max_width = _number(tree.text(f"{folder}/max_link_width"))
    return Link(speed, width, max_speed or speed, max_width or width)


def bars(resource: str) -> tuple[int, ...]:
    """Return the sizes in bytes of the memory windows in a ``resource`` file, largest first.

    Each line is: start, end, flags, in hexadecimal
    (https://docs.kernel.org/PCI/sysfs-pci.html).
    """
    sizes = []
    for line in resource.splitlines()[:6]:
        numbers = [_number(word, 16) for word in line.split()]
        if len(numbers) == 3 and numbers[1] > numbers[0]:
            sizes.append(numbers[1] - numbers[0] + 1)
    return tuple(sorted(sizes, reverse=True))


def parse(entry: Entry, devices: Devices, nodes: tuple[Node, ...] = ()) -> Gpu:
    """Return an entry as a GPU, with what the catalog knows of it."""
    vendor = VENDORS.get(entry.vendor_id, "other")
    known = devices.find(vendor, entry.device_id)
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
