"""GPUs from Linux's sysfs: the devices of the PCI bus with their drivers and links."""

import itertools
import re
from dataclasses import asdict, replace

from provision.catalog.devices import Devices
from provision.core.platforms import VENDORS
from provision.host.model import Driver, Gpu, Host
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
    root = machine.root
    groups = group_names(root)
    nvidia_numbers = itertools.count()
    gpus = []
    for address in root.names(_DEVICES):
        folder = f"{_DEVICES}/{address}"
        if not _ADDRESS.fullmatch(address):
            continue
        if not _GPU_CLASS.fullmatch(root.text(f"{folder}/class")):
            continue
        gpu = _gpu(root, address, machine.devices)
        if gpu.vendor == "other" and "wsl" in host.surroundings:
            continue  # Microsoft's paravirtual display
        names = root.names(f"{folder}/drm")
        paths = [f"/dev/dri/{name}" for name in names if name.startswith("renderD")]
        # NVIDIA's driver has device files of its own, numbered in bus order.
        if gpu.driver and gpu.driver.name == "nvidia":
            paths = ["/dev/nvidiactl", f"/dev/nvidia{next(nvidia_numbers)}"]
        if host.user:
            nodes = [node(root, path, host.user, groups) for path in paths]
            gpu = replace(gpu, nodes=tuple(nodes))
        gpus.append(gpu)
    return replace(host, gpus=tuple(gpus))


def _gpu(root: Root, address: str, devices: Devices) -> Gpu:
    folder = f"{_DEVICES}/{address}"
    ids = []
    for key in ("vendor", "device"):
        text = root.text(f"{folder}/{key}").lower()
        match = re.fullmatch("0x([0-9a-f]{4})", text)
        ids.append(match[1] if match else "")
    gpu = catalogued(devices, ids[0], ids[1], address)
    if name := root.target(f"{folder}/driver"):
        version = root.text(f"sys/module/{name}/version")
        gpu = replace(gpu, driver=Driver(name, version or None))
    # Only such a device has the file: Linux, drivers/gpu/drm/xe/xe_survivability_mode.c.
    if root.exists(f"{folder}/survivability_mode"):
        gpu = replace(gpu, survivability=True)
    # A GPU in the processor has no memory of its own.
    if gpu.integrated is False:
        size = largest_bar(root.text(f"{folder}/resource"))
        if size:
            gpu = replace(gpu, resizable_bar=size > _WINDOW)
    return gpu


def catalogued(devices: Devices, vendor_id: str, device_id: str, address: str) -> Gpu:
    """Return a GPU with what the catalog has of its model."""
    vendor = _PCI_VENDORS.get(vendor_id, "other")
    device = devices.find(vendor, device_id)
    if device is None:
        name = f"{vendor} {vendor_id}:{device_id}"
        elsewhere = devices.elsewhere.get(vendor, "")
        return Gpu(vendor, device_id, name, address, elsewhere=elsewhere)
    # A family that is not supported is handled like every other old one of its vendor.
    key = device.family if device.supported else vendor
    elsewhere = devices.elsewhere.get(key or "", "")
    facts = asdict(device)
    return Gpu(vendor, device_id, address=address, elsewhere=elsewhere, **facts)


def largest_bar(resource: str) -> int:
    """Return the size in bytes of the largest memory window in a ``resource`` file, 0 for none."""
    # Each line is: start, end, flags, in hexadecimal (https://docs.kernel.org/PCI/sysfs-pci.html).
    # Six BARs; the expansion ROM and a bridge's windows follow.
    sizes = [0]
    for line in resource.splitlines()[:6]:
        match = re.match(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) ", line)
        if match and match[2] != match[1]:
            start = int(match[1], 16)
            sizes.append(int(match[2], 16) - start + 1)
    return max(sizes)
