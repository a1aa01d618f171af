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

_SECURE_BOOT = (
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
)
# Not "module verification failed", which only says that the kernel is tainted.
_REJECTED = re.compile(
    r"Key was rejected|module with unavailable key|unsigned module is rejected"
)


def probe(machine: Machine, host: Host) -> Host:
    """Return the host with its system; the kernel's log is read only for the sake of a GPU."""
    root = machine.root
    own = [
        gpu for gpu in host.gpus if gpu.vendor in VENDORS and VENDORS[gpu.vendor].module
    ]
    log = _kernel_log(root) if own else ""
    bare = {gpu.vendor for gpu in own if gpu.driver is None}
    versions = [
        n for n in machine.libraries if re.fullmatch(r"libstdc\+\+\.so(\.\d+)+", n)
    ]
    # glibc's ldd is a script that names its version; asking the library itself means running it.
    libc = re.search(r"ldd \(.*?\) (2\.\d+)", root.text("usr/bin/ldd"))
    musl = any(name.startswith("ld-musl-") for name in root.names("lib"))
    system = System(
        libc=f"glibc {libc[1]}" if libc else "musl" if musl else "",
        libstdcxx=max(versions, key=numbers_of, default=""),
        refused={
            vendor: why for vendor in bare if (why := _refusal(root, host, vendor, log))
        },
        room=dict([*_memory(root, host), *(_disks(machine) if root.live else ())]),
        gpu_log=tuple(re.findall(r"^.*\b(?:NVRM|i915|xe)\b.*$", log, re.MULTILINE)),
    )
    return dataclasses.replace(host, system=system)


def _kernel_log(root: Root) -> str:
    """Return what the kernel logged since it started; "" where this user may not read it."""

    def opener(path: str, flags: int) -> int:
        return os.open(
            path, flags | getattr(os, "O_NONBLOCK", 0)
        )  # its end would wait for more

    try:
        with open(root.path / "dev/kmsg", "rb", buffering=0, opener=opener) as stream:
            return b"".join(iter(lambda: stream.read(8192) or b"", b"")).decode(
                "utf-8", "replace"
            )
    except OSError:
        # The file also holds earlier starts, whose faults say nothing of this one.
        _, start, log = root.text("var/log/kern.log", -(4 << 20)).rpartition(
            "Linux version "
        )
        return log if start else ""


def _refusal(root: Root, host: Host, vendor: str, log: str) -> tuple[str, str] | None:
    """Return what keeps a vendor's kernel driver out: a table of obstacles.toml, and where."""
    module = VENDORS[vendor].module
    blacklist = rf"^\s*(?:blacklist\s+{module}\s*$|install\s+{module}\s+\S*/(?:false|true)\b.*$)"
    files = [
        f"{folder}/{n}" for folder in TABLES["modprobe"] for n in root.names(folder)
    ]
    places = [(path, blacklist) for path in files if path.endswith(".conf")]
    # nomodeset stops the drivers of the kernel itself, not NVIDIA's.
    words = r"|\bnomodeset\b" if vendor == "intel" else ""
    places.append(
        (
            "proc/cmdline",
            rf"\b(?:module_|modprobe\.)blacklist=\S*\b{module}\b\S*{words}",
        )
    )
    for path, pattern in places:
        if found := re.search(pattern, root.text(path), re.MULTILINE):
            return "driver-kept-out", f"/{path} says {found[0].strip()}"
    built = root.names(f"lib/modules/{host.kernel}/updates/dkms")
    present = any(re.match(rf"{module}\.ko", name) for name in built)
    # Four bytes of attributes, then 1 where it is on.
    refuses = root.text(_SECURE_BOOT).endswith("\x01") and (
        present or _REJECTED.search(log)
    )
    return ("driver-refused", "") if refuses else None


def _memory(root: Root, host: Host) -> Iterator[tuple[str, int]]:
    """Yield the free bytes of memory and of this process's control groups, and the size of shm."""
    if found := re.search(
        r"^MemAvailable:\s+(\d+) kB", root.text("proc/meminfo"), re.MULTILINE
    ):
        yield "memory", int(found[1]) << 10
    groups = root.text("proc/self/cgroup") or "0::/\n1:memory:/"
    for kind, own in re.findall(r"^\d+:(memory|):(/.*)$", groups, re.MULTILINE):
        limit, used = (
            ("limit_in_bytes", "usage_in_bytes") if kind else ("max", "current")
        )
        # In a container the path can be that of the host, of which it sees the end as its root.
        for folder in (PurePosixPath(own), *PurePosixPath(own).parents):
            group = f"sys/fs/cgroup/{kind}{folder}/memory"
            most, now = root.text(f"{group}.{limit}"), root.text(f"{group}.{used}")
            cache = re.search(
                r"^inactive_file (\d+)", root.text(f"{group}.stat"), re.MULTILINE
            )
            if most.isdecimal() and now.isdecimal():  # "max" is no limit
                yield (
                    f"cgroup {folder}",
                    int(most) - int(now) + (int(cache[1]) if cache else 0),
                )
    shm = re.search(
        r"^\S+ /dev/shm tmpfs \S*\bsize=(\d+)k", root.text("proc/mounts"), re.MULTILINE
    )
    # Docker's 64 MiB are nobody's choice; on a desktop they would be its owner's.
    if shm and set(host.surroundings) - {"wsl", "vm"}:
        yield "shm", int(shm[1]) << 10


def _disks(machine: Machine) -> Iterator[tuple[str, int]]:
    for kind, name, usual in (("disk", "HOME", "/"), ("temporary", "TMPDIR", "/tmp")):  # noqa: S108
        folder = machine.environ.get(name, usual)
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        if usage.total:  # some file systems do not tell
            yield f"{kind} files in {folder}", usage.free
