"""Imports of real ELF and PE files, of a few hundred bytes each, walked to what is missing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from provision.doctor.environment import read_environment
from provision.doctor.libraries import missing_libraries
from provision.host.model import Host
from tests.doctor.cards import RTX

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doctor.conftest import Env


DT_NULL, DT_NEEDED, DT_STRTAB, DT_RUNPATH = 0, 1, 5, 29


def elf(*needed: str, runpath: str = "") -> bytes:
    """Return a shared object: one loaded segment, with the dynamic one and its strings."""
    strings, dynamic = b"\0", b""
    texts = [(DT_NEEDED, name) for name in needed]
    if runpath:
        texts.append((DT_RUNPATH, runpath))
    for tag, text in texts:
        dynamic += struct.pack("<QQ", tag, len(strings))
        strings += text.encode() + b"\0"
    start = 64 + 2 * 56
    length = len(dynamic) + 2 * 16
    dynamic += struct.pack("<QQ", DT_STRTAB, start + length)
    dynamic += struct.pack("<QQ", DT_NULL, 0)
    size = start + length + len(strings)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 4096)
    where = struct.pack("<IIQQQQQQ", 2, 4, start, start, start, length, length, 8)
    return head + load + where + dynamic + strings


def pe(*dlls: str) -> bytes:
    """Return a DLL that imports others: headers and one section with the import table."""
    base = 0x1000  # where the section lies in memory; in the file at 0x200
    names, descriptors = b"", b""
    table = 20 * (len(dlls) + 1)
    for name in dlls:
        descriptors += struct.pack("<IIIII", 0, 0, 0, base + table + len(names), 0)
        names += name.encode() + b"\0"
    section = (descriptors + bytes(20) + names).ljust(0x200, b"\0")
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"
    head += struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0x200, 0, 0, 0, base)
    sizes = (0x180000000, 0x1000, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x2000, 0x200, 0, 2, 0)
    stacks = (1 << 20, 4096, 1 << 20, 4096, 0, 16)
    optional += struct.pack("<QIIHHHHHHIIIIHHQQQQII", *sizes, *stacks)
    directories = struct.pack("<IIII", 0, 0, base, len(section)) + bytes(14 * 8)
    sections = struct.pack(
        "<8sIIIIIIHHI", b".idata", 0x200, base, 0x200, 0x200, 0, 0, 0, 0, 0x40000040
    )
    return (head + optional + directories + sections).ljust(0x200, b"\0") + section


def put(env: Env, place: str, data: bytes) -> Path:
    path = env.site / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def missing(env: Env, host: Host | None = None) -> list[tuple[str, str]]:
    root = env.prefix.parent / "empty-root"
    contents = read_environment(env.prefix)
    found = missing_libraries(contents, host or env.host, root=root)
    return [(item.name, item.importer) for item in found]


def test_missing_library_is_named_with_who_wants_it(env: Env) -> None:
    library = elf("libsycl.so.8", "libc.so.6", "libtorch_cpu.so")
    put(env, "torch/lib/libtorch_xpu.so", library)
    put(env, "torch/lib/libtorch_cpu.so", elf("libm.so.6"))
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]


def test_runpath_leads_to_the_prefix_and_further_imports_are_walked(env: Env) -> None:
    runpath = "$ORIGIN:$ORIGIN/../../../../"
    put(env, "torch/lib/libtorch_xpu.so", elf("libsycl.so.8", runpath=runpath))
    put(env, "../../libsycl.so.8", elf("libur_loader.so.0"))
    assert missing(env) == [("libur_loader.so.0", "libsycl.so.8")]


def test_system_folders_and_loader_variables(env: Env) -> None:
    put(env, "torch/lib/libtorch_xpu.so", elf("libze_loader.so.1", "libsycl.so.8"))
    system = env.prefix.parent / "empty-root/usr/lib/x86_64-linux-gnu"
    system.mkdir(parents=True)
    (system / "libze_loader.so.1").touch()
    oneapi = env.prefix.parent / "oneapi"
    oneapi.mkdir()
    (oneapi / "libsycl.so.8").touch()
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]
    host = Host("linux-64", "6.8", variables={"LD_LIBRARY_PATH": str(oneapi)})
    assert missing(env, host) == []


def test_dll_that_windows_does_not_name(windows_env: Env) -> None:
    put(windows_env, "torch/lib/torch_cpu.dll", pe("KERNEL32.dll", "c10.dll", "uv.dll"))
    of_windows = pe("api-ms-win-crt-runtime-l1-1-0.dll", "VCRUNTIME140.dll")
    put(windows_env, "torch/lib/c10.dll", of_windows)
    assert missing(windows_env) == [("uv.dll", "torch_cpu.dll")]
    folder = windows_env.prefix / "Library/bin"
    folder.mkdir(parents=True)
    (folder / "UV.DLL").write_bytes(pe("kernel32.dll"))
    assert missing(windows_env) == []


CASES = [
    ("libsycl.so.8", "oneapi-runtime-missing", "intel-sycl-rt"),
    ("libze_loader.so.1", "oneapi-runtime-missing", "libze1"),
    ("libcudart.so.12", "cuda-library-mismatch", "--no-deps NAME==VERSION"),
    ("libjpeg.so.62", "missing-library", "libjpeg.so.62"),
]


@pytest.mark.parametrize(("library", "code", "remedy"), CASES)
def test_findings_of_missing_libraries(
    library: str, code: str, remedy: str, env: Env
) -> None:
    env.torch("2.9.1+xpu")
    put(env, "torch/lib/libtorch.so", elf(library))
    (finding,) = env.diagnose()
    assert finding.code == code
    assert remedy in finding.remedy
    assert finding.evidence == (f"libtorch.so imports {library}, which is not found",)


def test_no_driver_matters_only_beside_a_card(env: Env) -> None:
    env.torch("2.8.0", cuda="12.8")
    put(env, "torch/lib/libtorch_cuda.so", elf("libcuda.so.1"))
    assert env.codes() == []
    env.host = Host("linux-64", "6.8", gpus=(RTX,))
    assert env.codes() == ["driver-missing"]


# Its headers are where no file reaches.
FAR = elf()[:32] + b"\xff" * 8 + elf()[40:]


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"MZ", elf("libx.so")[:150], FAR, pe("x.dll")[:300]]
)
def test_broken_binaries_do_not_raise(data: bytes, env: Env, windows_env: Env) -> None:
    put(env, "torch/lib/libtorch.so", data)
    assert missing(env) == []


def test_a_library_that_ends_too_early(env: Env) -> None:
    env.torch("2.9.1")
    sections = struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 9000, 0, 64, 56, 2, 64, 30, 1
    )
    data = elf()[:16] + sections + elf()[64:]
    folder = env.add("ops", "1.0")
    (folder / "RECORD").write_text(f"ops/_C.so,sha256=x,{len(data) + 1000}\n")
    put(env, "ops/_C.so", data)
    assert env.codes() == ["half-installed"]
    put(env, "ops/_C.so", data.ljust(20_000, b"\0"))  # patched: it has grown
    assert env.codes() == []
