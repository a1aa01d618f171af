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


# Kinds of program headers, and tags of the dynamic segment.
PT_LOAD = 1
PT_DYNAMIC = 2
DT_NULL = 0
DT_NEEDED = 1
DT_STRTAB = 5
DT_RUNPATH = 29

# The header of a 64-bit ELF file, after the 16 bytes that say what it is.
ELF_HEADER = {
    "type": 3,  # a shared object
    "machine": 62,  # x86-64
    "version": 1,
    "entry": 0,
    "program headers": 64,
    "section headers": 0,
    "flags": 0,
    "size": 64,
    "size of a program header": 56,
    "number of program headers": 2,
    "size of a section header": 64,
    "number of section headers": 0,
    "section of names": 0,
}


def elf_header(fields: dict[str, int]) -> bytes:
    kind = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return kind + struct.pack("<HHIQQQIHHHHHH", *fields.values())


def program_header(kind: int, start: int, size: int, alignment: int) -> bytes:
    """Return the header of a segment that lies in memory as it does in the file."""
    readable = 4
    places = struct.pack("<QQQ", start, start, start)
    sizes = struct.pack("<QQQ", size, size, alignment)
    return struct.pack("<II", kind, readable) + places + sizes


def elf(*needed: str, runpath: str = "") -> bytes:
    """Return a shared object: one loaded segment, with the dynamic one and its strings."""
    strings = b"\0"
    dynamic = b""
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
    head = elf_header(ELF_HEADER)
    size = start + length + len(strings)
    head += program_header(PT_LOAD, 0, size, 4096)
    head += program_header(PT_DYNAMIC, start, length, 8)
    return head + dynamic + strings


BASE = 0x1000  # where a DLL's section lies in memory; in the file at 0x200
COFF_HEADER = {
    "machine": 0x8664,
    "sections": 1,
    "time": 0,
    "symbol table": 0,
    "symbols": 0,
    "size of the optional header": 240,
    "characteristics": 0x2022,  # a DLL
}
OPTIONAL_HEADER = {
    "magic": 0x20B,  # PE32+
    "linker major": 14,
    "linker minor": 0,
    "size of code": 0x200,
    "size of data": 0,
    "size of empty data": 0,
    "entry": 0,
    "base of code": BASE,
    "image base": 0x180000000,
    "alignment in memory": 0x1000,
    "alignment in the file": 0x200,
    "system major": 6,
    "system minor": 0,
    "image major": 0,
    "image minor": 0,
    "subsystem major": 6,
    "subsystem minor": 0,
    "reserved": 0,
    "size of image": 0x2000,
    "size of headers": 0x200,
    "checksum": 0,
    "subsystem": 2,
    "characteristics": 0,
    "stack": 1 << 20,
    "stack at start": 4096,
    "heap": 1 << 20,
    "heap at start": 4096,
    "loader flags": 0,
    "directories": 16,
}
IMPORT_SECTION = {
    "size in memory": 0x200,
    "address": BASE,
    "size in the file": 0x200,
    "place in the file": 0x200,
    "relocations": 0,
    "lines": 0,
    "number of relocations": 0,
    "number of lines": 0,
    "characteristics": 0x40000040,  # readable, initialized data
}


def pe(*dlls: str) -> bytes:
    """Return a DLL that imports others: headers and one section with the import table."""
    names = b""
    descriptors = b""
    table = 20 * (len(dlls) + 1)
    for name in dlls:
        place = BASE + table + len(names)
        descriptors += struct.pack("<IIIII", 0, 0, 0, place, 0)
        names += name.encode() + b"\0"
    section = (descriptors + bytes(20) + names).ljust(0x200, b"\0")
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"
    head += struct.pack("<HHIIIHH", *COFF_HEADER.values())
    optional = OPTIONAL_HEADER.values()
    head += struct.pack("<HBBIIIIIQIIHHHHHHIIIIHHQQQQII", *optional)
    # Of the 16 directories only the second is there, that of imports.
    head += struct.pack("<IIII", 0, 0, BASE, len(section)) + bytes(14 * 8)
    described = IMPORT_SECTION.values()
    head += struct.pack("<8sIIIIIIHHI", b".idata", *described)
    return head.ljust(0x200, b"\0") + section


def put(env: Env, place: str, data: bytes) -> Path:
    path = env.site / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def missing(env: Env, host: Host | None = None) -> list[tuple[str, str]]:
    root = env.prefix.parent / "empty-root"
    contents = read_environment(env.prefix)
    names = []
    for library in missing_libraries(contents, host or env.host, root=root):
        names.append((library.name, library.importer))
    return names


def test_missing_library_is_named_with_who_wants_it(env: Env) -> None:
    library = elf("libsycl.so.8", "libc.so.6", "libtorch_cpu.so")
    put(env, "torch/lib/libtorch_xpu.so", library)
    put(env, "torch/lib/libtorch_cpu.so", elf("libm.so.6"))
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]


def test_runpath_leads_to_the_prefix_and_further_imports_are_walked(env: Env) -> None:
    runpath = "$ORIGIN:$ORIGIN/../../../../"
    library = elf("libsycl.so.8", runpath=runpath)
    put(env, "torch/lib/libtorch_xpu.so", library)
    sycl = elf("libur_loader.so.0")
    put(env, "../../libsycl.so.8", sycl)
    assert missing(env) == [("libur_loader.so.0", "libsycl.so.8")]


def test_system_folders_and_loader_variables(env: Env) -> None:
    library = elf("libze_loader.so.1", "libsycl.so.8")
    put(env, "torch/lib/libtorch_xpu.so", library)
    system = env.prefix.parent / "empty-root/usr/lib/x86_64-linux-gnu"
    system.mkdir(parents=True)
    (system / "libze_loader.so.1").touch()
    oneapi = env.prefix.parent / "oneapi"
    oneapi.mkdir()
    (oneapi / "libsycl.so.8").touch()
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]
    variables = {"LD_LIBRARY_PATH": str(oneapi)}
    host = Host("linux-64", "6.8", variables=variables)
    assert missing(env, host) == []


def test_dll_that_windows_does_not_name(windows_env: Env) -> None:
    cpu = pe("KERNEL32.dll", "c10.dll", "uv.dll")
    put(windows_env, "torch/lib/torch_cpu.dll", cpu)
    c10 = pe("api-ms-win-crt-runtime-l1-1-0.dll", "VCRUNTIME140.dll")
    put(windows_env, "torch/lib/c10.dll", c10)
    assert missing(windows_env) == [("uv.dll", "torch_cpu.dll")]
    folder = windows_env.prefix / "Library/bin"
    folder.mkdir(parents=True)
    uv = pe("kernel32.dll")
    (folder / "UV.DLL").write_bytes(uv)
    assert missing(windows_env) == []


@pytest.mark.parametrize(
    ("library", "code", "remedy"),
    [
        ("libsycl.so.8", "oneapi-runtime-missing", "uv pip check --python "),
        ("libze_loader.so.1", "oneapi-runtime-missing", "libze1"),
        ("libcudart.so.12", "cuda-library-mismatch", "--no-deps NAME==VERSION"),
        ("libcudnn.so.9", "cuda-library-mismatch", "uv pip check --python "),
        ("libjpeg.so.62", "missing-library", "libjpeg.so.62"),
    ],
)
def test_findings_of_missing_libraries(
    library: str, code: str, remedy: str, env: Env
) -> None:
    env.torch("2.9.1+xpu")
    put(env, "torch/lib/libtorch.so", elf(library))
    (finding,) = env.diagnose()
    assert finding.code == code
    assert remedy in finding.remedy
    (evidence,) = finding.evidence
    assert evidence == f"libtorch.so imports {library}, which is not found"


def test_each_missing_library_has_its_remedy(env: Env) -> None:
    env.torch("2.9.1+xpu")
    put(env, "torch/lib/libtorch.so", elf("libsycl.so.8", "libze_loader.so.1"))
    (finding,) = env.diagnose()
    assert f"`uv pip check --python {env.prefix}`" in finding.remedy
    assert "`sudo apt-get install libze1`" in finding.remedy


def test_no_driver_matters_only_beside_a_card(env: Env) -> None:
    env.torch("2.8.0", cuda="12.8")
    put(env, "torch/lib/libtorch_cuda.so", elf("libcuda.so.1"))
    assert env.codes() == []
    env.host = Host("linux-64", "6.8", gpus=(RTX,))
    assert env.codes() == ["driver-missing"]


HALF_ELF = elf("libx.so")[:150]
HALF_PE = pe("x.dll")[:300]
FAR_HEADER = elf_header(ELF_HEADER | {"program headers": 2**64 - 1})
FAR = FAR_HEADER + elf()[64:]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ", HALF_ELF, FAR, HALF_PE])
def test_broken_binaries_do_not_raise(data: bytes, env: Env, windows_env: Env) -> None:
    put(env, "torch/lib/libtorch.so", data)
    assert missing(env) == []


def test_a_library_that_ends_too_early(env: Env) -> None:
    env.torch("2.9.1")
    sections = {
        "section headers": 9000,
        "number of section headers": 30,
        "section of names": 1,
    }
    data = elf_header(ELF_HEADER | sections) + elf()[64:]
    folder = env.add("ops", "1.0")
    size = len(data) + 1000
    (folder / "RECORD").write_text(f"ops/_C.so,sha256=x,{size}\n")
    put(env, "ops/_C.so", data)
    assert env.codes() == ["half-installed"]
    put(env, "ops/_C.so", data.ljust(20_000, b"\0"))  # patched: it has grown
    assert env.codes() == []
