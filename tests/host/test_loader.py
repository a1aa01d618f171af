"""Which library of the driver programs load, and the version that its file's name tells."""

from __future__ import annotations

import random
import re
import shutil
import struct
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.commands.machine import read_layers, this_host
from provision.core.process import run
from provision.core.project import Project
from provision.host import loader
from provision.host.model import NOT_KNOWN, host_layers
from provision.host.probe import read_host

if TYPE_CHECKING:
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
    texts = b""
    rows = b""
    start = 48 + 24 * len(entries)
    for flags, name, path in entries:
        name_at = start + len(texts)
        texts += name.encode() + b"\0"
        path_at = start + len(texts)
        texts += path.encode() + b"\0"
        rows += struct.pack("<iIIIQ", flags, name_at, path_at, 0, 0)
    magic = b"glibc-ld.so.cache1.1"
    head = struct.pack("<20sII20x", magic, len(entries), len(texts))
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
    environ = {}
    if variable:
        environ["LD_LIBRARY_PATH"] = variable
    return read_host(devices(), root=root, environ=environ)


def cuda_of(root: Path, variable: str = "", cached: bytes = b"") -> str | None:
    """Return the version of the driver's library that a program would load."""
    host = host_of(root, variable, cached)
    return host.runtimes.cuda


@cache
def devices() -> Devices:
    return read_devices(CATALOG)


def test_a_link_to_a_link_in_another_folder_is_followed(tmp_path: Path) -> None:
    """As in a virtual machine whose driver is mounted, where the version was not found."""
    for name in (CUDA, "libnvidia-ml.so.1"):
        driver(tmp_path / NVIDIA, VERSION, name)
        link(tmp_path / "usr/lib" / name, f"/{NVIDIA}/{name}")
    found = host_of(tmp_path).runtimes
    assert found.cuda == VERSION
    assert found.nvml == VERSION


IN_A = (X86, CUDA, f"/opt/a/{CUDA}")
IN_B = (X86, CUDA, f"/opt/b/{CUDA}")
GONE = (X86, CUDA, f"/gone/{CUDA}")
OF_32_BITS = (I386, CUDA, f"/opt/a/{CUDA}")


@pytest.mark.parametrize(
    ("variable", "cached", "taken"),
    [
        ("/opt/a", [IN_B], "580.10"),
        ("/gone:;opt/a;/opt/b/:/opt/a", [], "581.10"),
        ("", [IN_B, IN_A], "581.10"),
        ("", [GONE, IN_A], "580.10"),
        ("", [OF_32_BITS, IN_B], "581.10"),
        ("", [], "582.10"),
    ],
)
def test_libraries_are_searched_in_the_order_of_the_loader(
    tmp_path: Path, variable: str, cached: list[tuple[int, str, str]], taken: str
) -> None:
    driver(tmp_path / "opt/a", "580.10")
    driver(tmp_path / "opt/b", "581.10")
    driver(tmp_path / DEBIAN, "582.10")
    assert cuda_of(tmp_path, variable, cache_of(*cached)) == taken


def test_a_usual_folder_comes_before_that_of_nvidia_s_images(tmp_path: Path) -> None:
    driver(tmp_path / NVIDIA, "580.10")
    driver(tmp_path / "lib64", "581.10")
    assert cuda_of(tmp_path, cached=cache_of()) == "581.10"


def test_intel_s_libraries_are_found_in_the_same_way(tmp_path: Path) -> None:
    driver(tmp_path / "opt/level-zero", "1.20.2", "libze_loader.so.1")
    driver(tmp_path / DEBIAN, "1.17.44", "libze_loader.so.1")
    driver(tmp_path / "opt/neo", "1.6.33578", "libze_intel_gpu.so.1")
    entry = X86, "libze_intel_gpu.so.1", "/opt/neo/libze_intel_gpu.so.1"
    host = host_of(tmp_path, "/opt/level-zero", cache_of(entry))
    assert host.runtimes.level_zero == "1.20.2"
    assert host.runtimes.compute_runtime == "25.18.33578"


def test_a_copy_has_the_version_of_the_name_beside_it(tmp_path: Path) -> None:
    mounted = tmp_path / ".singularity.d/libs"
    write(mounted / CUDA)
    write(mounted / f"libcuda.so.{VERSION}")
    write(tmp_path / "opt/old/libcuda.so.470.86")
    assert cuda_of(tmp_path) == VERSION


def test_a_copy_without_a_version_is_of_the_module_s_driver(tmp_path: Path) -> None:
    write(tmp_path / "usr/lib" / CUDA)
    host = host_of(tmp_path)
    assert host.runtimes.cuda == ""
    assert host_layers(host)["CUDA driver library"] == NOT_KNOWN
    write(tmp_path / "proc/driver/nvidia/version", MODULE)
    assert cuda_of(tmp_path) == VERSION


@pytest.mark.parametrize("target", [CUDA, "gone", f"/usr/lib/{CUDA}", "../" * 50])
def test_a_link_to_nowhere_is_no_library(tmp_path: Path, target: str) -> None:
    link(tmp_path / "usr/lib" / CUDA, target)
    assert not cuda_of(tmp_path)
    driver(tmp_path / NVIDIA, VERSION)
    assert cuda_of(tmp_path) == VERSION


def test_a_damaged_cache_names_nothing_and_raises_nothing(tmp_path: Path) -> None:
    whole = cache_of(IN_A, (X86, "libz.so.1", "/lib/libz.so"))
    # Before glibc 2.32 ldconfig wrote an older table first.
    older = b"ld.so-1.7.0" + whole
    (path,) = loader.cached(older, CUDA)
    assert path == f"/opt/a/{CUDA}"
    dice = random.Random(33)
    for size in range(len(whole)):
        paths = list(loader.cached(whole[:size], CUDA))
        assert len(paths) <= 1
        flipped = bytearray(whole)
        place = dice.randrange(len(whole))
        flipped[place : place + 1] = dice.randbytes(1)
        paths = list(loader.cached(bytes(flipped), CUDA))
        assert len(paths) <= 2
    driver(tmp_path / NVIDIA, VERSION)
    assert cuda_of(tmp_path, cached=whole[:60]) == VERSION


@pytest.mark.machine
@pytest.mark.skipif(not LDCONFIG, reason="no ldconfig: a musl system or not Linux")
def test_this_machine_s_cache_is_read_as_ldconfig_reads_it() -> None:
    assert LDCONFIG
    cache = Path("/etc/ld.so.cache").read_bytes()
    listed: dict[str, list[str]] = {}
    line = re.compile(r"\t(\S+) \(libc6,(?:x86-64|AArch64)\) => (\S+)")
    printed = run([LDCONFIG, "-p"]).stdout
    for name, path in line.findall(printed):
        listed.setdefault(name, []).append(path)
    assert "libc.so.6" in listed
    for name, paths in listed.items():
        found = list(loader.cached(cache, name))
        assert found == paths


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
