"""GPUs from Linux's sysfs: the devices of the PCI bus with their drivers and links."""

import dataclasses
import itertools
import re

from provision.catalog.devices import Devices
from provision.core.platforms import VENDORS
from provision.host.model import Driver, Gpu, Host, Link
from provision.host.permissions import group_names, node
from provision.host.root import Machine, Root

_PCI_VENDORS = {vendor.pci: name for name, vendor in VENDORS.items() if vendor.pci}
_DEVICES = "sys/bus/pci/devices"
# 03xx: display controllers, Max and H100 included; 1200: processing accelerators.
_GPU_CLASS = re.compile(r"0x(03|1200)[0-9a-f]*", re.IGNORECASE)
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Without resizable BAR a card maps its memory through a window of 256 MiB.
_WINDOW = 256 * 2**20


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with the display and compute devices of its PCI bus, by address."""
    root, groups, nvidia_number = (
        machine.root,
        group_names(machine.root),
        itertools.count(),
    )
    gpus = []
    for address in root.names(_DEVICES):
        folder = f"{_DEVICES}/{address}"
        if not (
            _ADDRESS.fullmatch(address)
            and _GPU_CLASS.fullmatch(root.text(f"{folder}/class"))
        ):
            continue
        gpu = _gpu(root, address, machine.devices)
        names = root.names(f"{folder}/drm")
        paths = [f"/dev/dri/{name}" for name in names if name.startswith("renderD")]
        # NVIDIA's driver has device files of its own, numbered in bus order.
        if gpu.driver and gpu.driver.name == "nvidia":
            paths = ["/dev/nvidiactl", f"/dev/nvidia{next(nvidia_number)}"]
        nodes = (node(root, path, host.user, groups) for path in paths if host.user)
        gpus.append(dataclasses.replace(gpu, nodes=tuple(nodes)))
    if "wsl" in host.surroundings:
        gpus = [
            gpu for gpu in gpus if gpu.vendor != "other"
        ]  # Microsoft's paravirtual display
    return dataclasses.replace(host, gpus=tuple(gpus))


def _gpu(root: Root, address: str, devices: Devices) -> Gpu:
    folder = f"{_DEVICES}/{address}"
    name = root.target(f"{folder}/driver")
    version = root.text(f"sys/module/{name}/version") if name else ""
    texts = [root.text(f"{folder}/{key}").lower() for key in ("vendor", "device")]
    vendor, device = (x[2:] if re.fullmatch("0x[0-9a-f]{4}", x) else "" for x in texts)
    gpu = catalogued(devices, vendor, device, address)
    gpu = dataclasses.replace(
        gpu, driver=Driver(name, version or None) if name else None
    )
    if gpu.integrated is not False:
        return gpu  # a GPU in the processor has neither a slot nor memory of its own
    sizes = bars(root.text(f"{folder}/resource"))
    whole = sizes[0] > _WINDOW if sizes else None
    return dataclasses.replace(
        gpu, link=link(root, _port(root, folder)), resizable_bar=whole
    )


def catalogued(devices: Devices, vendor_id: str, device_id: str, address: str) -> Gpu:
    """Return a GPU with what the catalog knows of its model."""
    vendor = _PCI_VENDORS.get(vendor_id, "other")
    known = devices.find(vendor, device_id)
    facts = (
        dataclasses.asdict(known)
        if known
        else {"name": f"{vendor} {vendor_id}:{device_id}"}
    )
    # A family that is not supported is served like every other old one of its vendor.
    key = known.family if known and known.supported else vendor
    elsewhere = devices.elsewhere.get(key or "", "")
    return Gpu(vendor, device_id, address=address, elsewhere=elsewhere, **facts)


def _port(root: Root, folder: str) -> str:
    """Return the folder of the device whose PCI Express link is the card's."""
    # An Arc card is a PCI Express switch with the GPU behind it, and the GPU's own link always
    # reports 2.5 GT/s x1 (https://github.com/Syllo/nvtop/pull/344). The link that counts is that of
    # the card's topmost bridge, the last one of the same vendor below the root port.
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
    """Return the sizes in bytes of the memory windows in a ``resource`` file, largest first."""
    # Each line is: start, end, flags, in hexadecimal (https://docs.kernel.org/PCI/sysfs-pci.html).
    sizes = []
    # Six BARs; the expansion ROM and a bridge's windows follow.
    for line in resource.splitlines()[:6]:
        numbers = [_number(word, 16) for word in line.split()]
        if len(numbers) == 3 and numbers[1] > numbers[0]:
            sizes.append(numbers[1] - numbers[0] + 1)
    return tuple(sorted(sizes, reverse=True))


def _number(text: str, base: int = 10) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0
