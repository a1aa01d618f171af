"""The system around the GPUs: its C library, its free memory, and what the kernel says of them."""

import dataclasses
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import PurePosixPath

from provision.core.platforms import VENDORS
from provision.host.driver_versions import numbers_of
from provision.host.model import Host, System
from provision.host.root import TABLES, Machine, Root
from provision.host.vendors import MODULES

_SECURE_BOOT = (
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
)
_LIBSTDCXX = re.compile(r"libstdc\+\+\.so(\.\d+)+")
# Not "module verification failed", which only says that the kernel is tainted.
_REJECTED = re.compile(
    r"Key was rejected|module with unavailable key|unsigned module is rejected"
)


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with its system; the kernel's log is read only for the sake of a GPU."""
    root = machine.root
    gpus = [gpu for gpu in host.gpus if gpu.vendor in MODULES]
    log = _kernel_log(root) if gpus else ""
    refused = {}
    for vendor in {gpu.vendor for gpu in gpus if gpu.driver is None}:
        if refusal := _refusal(root, host, vendor, log):
            refused[vendor] = refusal
    versions = filter(_LIBSTDCXX.fullmatch, machine.libraries)
    room = dict(_memory(root, host))
    if root.live:
        room |= _disks(machine)
    system = System(
        libc=_libc(root),
        libstdcxx=max(versions, key=numbers_of, default=""),
        refused=refused,
        room=room,
        gpu_log=tuple(re.findall(r"^.*\b(?:NVRM|i915|xe)\b.*$", log, re.MULTILINE)),
    )
    return dataclasses.replace(host, system=system)


def _libc(root: Root) -> str:
    # glibc's ldd is a script that names its version; asking the library itself means running it.
    if version := root.search(r"ldd \(.*?\) (2\.\d+)", "usr/bin/ldd"):
        return f"glibc {version[1]}"
    musl = any(name.startswith("ld-musl-") for name in root.names("lib"))
    return "musl" if musl else ""


def _kernel_log(root: Root) -> str:
    """Return what the kernel logged since it started; "" where this user may not read it."""

    def opener(path: str, flags: int) -> int:
        # Its end would wait for more.
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    log = bytearray()
    try:
        with open(root.path / "dev/kmsg", "rb", buffering=0, opener=opener) as stream:
            while message := stream.read(8192):  # each reading is one
                log += message
        return log.decode("utf-8", "replace")
    except OSError:
        text = root.text("var/log/kern.log", -(4 << 20))
        # It also holds earlier starts, whose errors say nothing of this one.
        _, start, last = text.rpartition("Linux version ")
        return last if start else ""


def _refusal(root: Root, host: Host, vendor: str, log: str) -> tuple[str, str] | None:
    """Return what keeps a vendor's kernel driver out: a table of obstacles.toml, and where."""
    module = VENDORS[vendor].module
    blacklist = rf"^\s*(?:blacklist\s+{module}\s*$|install\s+{module}\s+\S*/(?:false|true)\b.*$)"
    for folder in TABLES["modprobe"]:
        for name in root.names(folder):
            path = f"{folder}/{name}"
            line = root.search(blacklist, path)
            if line and name.endswith(".conf"):
                return "driver-kept-out", f"/{path} says {line[0].strip()}"
    option = rf"\b(?:module_|modprobe\.)blacklist=\S*\b{module}\b\S*"
    if vendor == "intel":  # it stops the drivers of the kernel itself, not NVIDIA's
        option += r"|\bnomodeset\b"
    if word := root.search(option, "proc/cmdline"):
        return "driver-kept-out", f"/proc/cmdline says {word[0]}"
    # Four bytes of attributes, then 1 where it is on.
    if not root.text(_SECURE_BOOT).endswith("\x01"):
        return None
    built = root.names(f"lib/modules/{host.kernel}/updates/dkms")
    is_built = any(re.match(rf"{module}\.ko", name) for name in built)
    if is_built or _REJECTED.search(log):
        return "driver-refused", ""
    return None


def _memory(root: Root, host: Host) -> Iterator[tuple[str, int]]:
    """Yield the free bytes of memory and of this process's control groups, and the size of shm."""
    if memory := root.search(r"^MemAvailable:\s+(\d+) kB", "proc/meminfo"):
        yield "memory", int(memory[1]) << 10
    group = root.search(r"^0::(/.*)$", "proc/self/cgroup")
    own = PurePosixPath(group[1] if group else "/")
    # In a container the path can be that of the host, of which it sees the end as its root.
    for folder in (own, *own.parents):
        place = f"sys/fs/cgroup{folder}/memory"
        most = root.text(f"{place}.max")
        now = root.text(f"{place}.current")
        if most.isdecimal() and now.isdecimal():  # "max" is no limit
            free = int(most) - int(now)
            if cache := root.search(r"^inactive_file (\d+)", f"{place}.stat"):
                free += int(cache[1])
            yield f"cgroup {folder}", free
    shm = root.search(r"^\S+ /dev/shm tmpfs \S*\bsize=(\d+)k", "proc/mounts")
    # Docker's 64 MiB are nobody's choice; on a desktop they would be its owner's.
    if shm and set(host.surroundings) - {"wsl", "vm"}:
        yield "shm", int(shm[1]) << 10


def _disks(machine: Machine) -> Iterator[tuple[str, int]]:
    folders = {
        "disk": machine.environ.get("HOME", "/"),
        "temporary": machine.environ.get("TMPDIR", "/tmp"),  # noqa: S108
    }
    for kind, folder in folders.items():
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        if usage.total:  # some file systems do not tell
            yield f"{kind} files in {folder}", usage.free
