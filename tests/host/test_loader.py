"""Which library of the driver programs load, and the version that its file's name tells."""

from __future__ import annotations

import random
import re
import shutil
import struct
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from provision.catalog.devices import read_devices
from provision.commands.machine import read_layers, this_host
from provision.core.process import run
from provision.core.project import Project
from provision.host import loader
from provision.host.model import NOT_KNOWN, host_layers
from provision.host.probe import read_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.catalog.devices import Devices
    from provision.host.model import Host

CATALOG = Path(__file__).parents[2] / "envs" / "catalog"
LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin")
CUDA, VERSION = "libcuda.so.1", "580.159.04"
NVIDIA = "usr/local/nvidia/lib64"
DEBIAN = "usr/lib/x86_64-linux-gnu"
X86, I386 = 0x0303, 0x0003
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan 6\n"

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the trees have links, as only Linux machines do"
)


def cache_of(*entries: tuple[int, str, str]) -> bytes:
    """Return an ldconfig cache of entries: flags, name and path."""
    texts, rows = b"", b""
    start = 48 + 24 * len(entries)
    for flags, name, path in entries:
        key = start + len(texts)
        texts += name.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, key, start + len(texts), 0, 0)
        texts += path.encode() + b"\0"
    head = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(entries), len(texts))
    return head + rows + texts


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def driver(folder: Path, version: str, name: str = CUDA) -> None:
    """Make a library of the driver and its link, as an installation does."""
    file = name.removesuffix("1") + version
    write(folder / file)
    link(folder / name, file)


def host_of(root: Path, variable: str = "", cached: bytes = b"") -> Host:
    write(root / "proc/sys/kernel/osrelease", "6.8.0")
    if cached:
        write(root / "etc/ld.so.conf")
        (root / "etc/ld.so.cache").write_bytes(cached)
    environ = {"LD_LIBRARY_PATH": variable} if variable else {}
    return read_host(devices(), root=root, environ=environ)


@cache
def devices() -> Devices:
    return read_devices(CATALOG)


def test_a_link_to_a_link_in_another_folder_is_followed(tmp_path: Path) -> None:
    """As in a virtual machine whose driver is mounted, where the version was not found."""
    for name in (CUDA, "libnvidia-ml.so.1"):
        driver(tmp_path / NVIDIA, VERSION, name)
        link(tmp_path / "usr/lib" / name, f"/{NVIDIA}/{name}")
    found = host_of(tmp_path).runtimes
    assert (found.cuda, found.nvml) == (VERSION, VERSION)


class Order(NamedTuple):
    """Where libraries are, and which of them the loader takes."""

    folders: Sequence[str]
    variable: str
    cached: Sequence[tuple[int, str]]
    taken: int


ORDERS = [
    Order(["opt/a", "opt/b", DEBIAN], "/opt/a", [(X86, "/opt/b")], 0),
    Order(["opt/a", "opt/b", DEBIAN], "/gone:;opt/a;/opt/b/:/opt/a", [], 1),
    Order(["opt/a", "opt/b", DEBIAN], "", [(X86, "/opt/b"), (X86, "/opt/a")], 1),
    Order(["opt/a", "opt/b", DEBIAN], "", [(X86, "/gone"), (X86, "/opt/a")], 0),
    Order(["opt/a", "opt/b", DEBIAN], "", [(I386, "/opt/a"), (X86, "/opt/b")], 1),
    Order(["opt/a", "opt/b", DEBIAN], "", [], 2),
    Order([NVIDIA, "lib64"], "", [], 1),
]


@pytest.mark.parametrize("order", ORDERS)
def test_libraries_are_searched_in_the_order_of_the_loader(
    tmp_path: Path, order: Order
) -> None:
    for number, folder in enumerate(order.folders):
        driver(tmp_path / folder, f"58{number}.10")
    entries = [(flags, CUDA, f"{folder}/{CUDA}") for flags, folder in order.cached]
    found = host_of(tmp_path, order.variable, cache_of(*entries))
    assert found.runtimes.cuda == f"58{order.taken}.10"


def test_intel_s_libraries_are_found_in_the_same_way(tmp_path: Path) -> None:
    driver(tmp_path / "opt/level-zero", "1.20.2", "libze_loader.so.1")
    driver(tmp_path / DEBIAN, "1.17.44", "libze_loader.so.1")
    driver(tmp_path / "opt/neo", "1.6.33578", "libze_intel_gpu.so.1")
    entry = X86, "libze_intel_gpu.so.1", "/opt/neo/libze_intel_gpu.so.1"
    found = host_of(tmp_path, "/opt/level-zero", cache_of(entry)).runtimes
    assert (found.level_zero, found.compute_runtime) == ("1.20.2", "25.18.33578")


def test_a_copy_has_the_version_of_the_name_beside_it(tmp_path: Path) -> None:
    write(tmp_path / ".singularity.d/libs" / CUDA)
    write(tmp_path / ".singularity.d/libs" / f"libcuda.so.{VERSION}")
    write(tmp_path / "opt/old/libcuda.so.470.86")
    assert host_of(tmp_path).runtimes.cuda == VERSION


def test_a_copy_without_a_version_is_of_the_module_s_driver(tmp_path: Path) -> None:
    write(tmp_path / "usr/lib" / CUDA)
    host = host_of(tmp_path)
    assert host.runtimes.cuda == ""
    assert host_layers(host)["CUDA driver library"] == NOT_KNOWN
    write(tmp_path / "proc/driver/nvidia/version", MODULE)
    assert host_of(tmp_path).runtimes.cuda == VERSION


@pytest.mark.parametrize("target", [CUDA, "gone", f"/usr/lib/{CUDA}", "../" * 50])
def test_a_link_to_nowhere_is_no_library(tmp_path: Path, target: str) -> None:
    link(tmp_path / "usr/lib" / CUDA, target)
    assert host_of(tmp_path).runtimes.cuda in (None, "")
    driver(tmp_path / NVIDIA, VERSION)
    assert host_of(tmp_path).runtimes.cuda == VERSION


def test_a_damaged_cache_names_nothing_and_raises_nothing(tmp_path: Path) -> None:
    whole = cache_of((X86, CUDA, f"/opt/a/{CUDA}"), (X86, "libz.so.1", "/lib/libz.so"))
    # Before glibc 2.32 ldconfig wrote an older table first.
    assert [*loader.cached(b"ld.so-1.7.0" + whole, CUDA)] == [f"/opt/a/{CUDA}"]
    dice = random.Random(33)
    for size in range(len(whole)):
        cut = whole[:size]
        assert len([*loader.cached(cut, CUDA)]) <= 1
        at = dice.randrange(len(whole))
        flipped = whole[:at] + dice.randbytes(1) + whole[at + 1 :]
        assert len([*loader.cached(flipped, CUDA)]) <= 2
    driver(tmp_path / NVIDIA, VERSION)
    assert host_of(tmp_path, cached=whole[:60]).runtimes.cuda == VERSION


@pytest.mark.machine
@pytest.mark.skipif(not LDCONFIG, reason="no ldconfig: a musl system or not Linux")
def test_this_machine_s_cache_is_read_as_ldconfig_reads_it() -> None:
    assert LDCONFIG
    cache = Path("/etc/ld.so.cache").read_bytes()
    listed: dict[str, list[str]] = {}
    line = re.compile(r"\t(\S+) \(libc6,(?:x86-64|AArch64)\) => (\S+)")
    for name, path in line.findall(run([LDCONFIG, "-p"]).stdout):
        listed.setdefault(name, []).append(path)
    assert "libc.so.6" in listed
    for name, paths in listed.items():
        assert [*loader.cached(cache, name)] == paths


@pytest.mark.skipif(sys.platform != "linux", reason="the loader is Linux'")
def test_the_checks_are_not_judged_by_a_library_of_the_caller_s_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They get no LD_LIBRARY_PATH: a shell that has one is no other machine."""
    project = Project(CATALOG.parents[1])
    driver(tmp_path, "999.1")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    layers = read_layers(project)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert this_host(project).runtimes.cuda == "999.1"
    assert read_layers(project) == layers
