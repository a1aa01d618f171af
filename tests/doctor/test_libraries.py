"""Imports of real ELF and PE files, of a few hundred bytes each, walked to what is missing."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from provision.doctor.environment import read_environment
from provision.doctor.libraries import missing_libraries
from provision.host.model import Driver, Gpu, Host

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doctor.conftest import Env


def elf(
    *needed: str,
    runpath: str = "",
    wants: tuple[str, ...] = (),
    weak: tuple[str, ...] = (),
    has: tuple[str, ...] = (),
) -> bytes:
    """Return a shared object: one loaded segment with the dynamic one, symbols and their hashes."""
    strings, tags = b"\0", []
    texts = [*((1, name) for name in needed), *([(29, runpath)] if runpath else [])]
    for tag, text in texts:  # DT_NEEDED is 1, DT_RUNPATH 29
        tags.append((tag, len(strings)))
        strings += text.encode() + b"\0"
    symbols = bytes(24)
    for name in (*wants, *weak, *has):
        bind, section = (2 if name in weak else 1), (1 if name in has else 0)
        symbols += struct.pack("<IBBHQQ", len(strings), bind << 4, 0, section, 0, 0)
        strings += name.encode() + b"\0"
    first = 1 + len(wants) + len(weak)
    hashes = struct.pack("<4IQI", 1, first, 1, 0, 2**64 - 1, first if has else 0)
    for name in has:
        value = 5381
        for byte in name.encode():
            value = (value * 33 + byte) & 0xFFFFFFFF
        hashes += struct.pack("<I", value | 1 if name == has[-1] else value & ~1)
    start = 64 + 2 * 56
    at = start + 16 * (len(tags) + 5)
    # DT_STRTAB, DT_STRSZ, DT_SYMTAB, DT_GNU_HASH, DT_NULL
    tags += [(5, at), (10, len(strings)), (6, at + len(strings))]
    tags += [(0x6FFFFEF5, at + len(strings) + len(symbols)), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    size = at + len(strings) + len(symbols) + len(hashes)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 4096)
    where = struct.pack(
        "<IIQQQQQQ", 2, 4, start, start, start, len(dynamic), len(dynamic), 8
    )
    return head + load + where + dynamic + strings + symbols + hashes


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
    found = missing_libraries(
        read_environment(env.prefix),
        host or env.host,
        root=env.prefix.parent / "empty-root",
    )
    return [(item.name, item.wanted_by) for item in found]


def test_missing_library_is_named_with_who_wants_it(env: Env) -> None:
    put(
        env,
        "torch/lib/libtorch_xpu.so",
        elf("libsycl.so.8", "libc.so.6", "libtorch_cpu.so"),
    )
    put(env, "torch/lib/libtorch_cpu.so", elf("libm.so.6"))
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]


def test_runpath_leads_to_the_prefix_and_further_imports_are_walked(env: Env) -> None:
    runpath = "$ORIGIN:$ORIGIN/../../../../"
    put(env, "torch/lib/libtorch_xpu.so", elf("libsycl.so.8", runpath=runpath))
    put(env, "../../libsycl.so.8", elf("libur_loader.so.0"))
    assert missing(env) == [("libur_loader.so.0", "libsycl.so.8")]


def test_nvidia_wheels_are_searched_as_torch_does(env: Env) -> None:
    put(env, "torch/lib/libtorch_cuda.so", elf("libcudnn.so.9", "libcudart.so.12"))
    put(env, "nvidia/cudnn/lib/libcudnn.so.9", elf())
    assert missing(env) == [("libcudart.so.12", "libtorch_cuda.so")]


def test_system_folders_and_loader_variables(env: Env) -> None:
    put(env, "torch/lib/libtorch_xpu.so", elf("libze_loader.so.1", "libsycl.so.8"))
    root = env.prefix.parent / "empty-root"
    (root / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (root / "usr/lib/x86_64-linux-gnu/libze_loader.so.1").touch()
    oneapi = env.prefix.parent / "oneapi"
    oneapi.mkdir()
    (oneapi / "libsycl.so.8").touch()
    assert missing(env) == [("libsycl.so.8", "libtorch_xpu.so")]
    host = Host("linux-64", "6.8", variables={"LD_LIBRARY_PATH": str(oneapi)})
    assert missing(env, host) == []


def test_dll_that_windows_does_not_name(windows_env: Env) -> None:
    put(windows_env, "torch/lib/torch_cpu.dll", pe("KERNEL32.dll", "c10.dll", "uv.dll"))
    put(
        windows_env,
        "torch/lib/c10.dll",
        pe("api-ms-win-crt-runtime-l1-1-0.dll", "VCRUNTIME140.dll"),
    )
    assert missing(windows_env) == [("uv.dll", "torch_cpu.dll")]
    (windows_env.prefix / "Library/bin").mkdir(parents=True)
    (windows_env.prefix / "Library/bin/UV.DLL").write_bytes(pe("kernel32.dll"))
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


def test_finding_of_a_missing_dll(windows_env: Env) -> None:
    windows_env.torch("2.1.0a0+cxx11.abi")
    put(windows_env, "torch/lib/torch_cpu.dll", pe("uv.dll"))
    (finding,) = windows_env.diagnose()
    assert finding.code == "missing-dll-windows"
    assert "libuv" in finding.remedy


def test_no_driver_matters_only_beside_a_card(env: Env) -> None:
    env.torch("2.8.0", cuda="12.8")
    put(env, "torch/lib/libtorch_cuda.so", elf("libcuda.so.1"))
    assert env.codes() == []
    card = Gpu(
        "nvidia",
        "2204",
        "RTX 3090",
        "0000:01:00.0",
        "ampere",
        supported=True,
        driver=Driver("nvidia", "580.95.05"),
    )
    env.host = Host("linux-64", "6.8", gpus=(card,))
    assert env.codes() == ["driver-missing"]


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"MZ", elf("libx.so")[:150], pe("x.dll")[:300]]
)
def test_broken_binaries_do_not_raise(data: bytes, env: Env, windows_env: Env) -> None:
    put(env, "torch/lib/libtorch.so", data)
    assert missing(env) == []


CHECK = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
CUDA = "_ZN3c104cuda14current_deviceEv"


def torch_with(env: Env, *symbols: str) -> None:
    env.torch("2.9.1+cpu")
    put(
        env,
        "torch/lib/libtorch_cpu.so",
        elf("libc10.so", has=("_ZN2at5emptyEv", *symbols)),
    )
    put(
        env, "torch/lib/libc10.so", elf(has=("_ZN3c105ErrorC1Ev", "_ZN3c106SymIntC1El"))
    )


def extension(
    env: Env, data: bytes, name: str = "my-ops", module: str = "_C.so"
) -> None:
    """Install a compiled package that says nothing of torch."""
    folder = env.add(name, "0.1")
    path = put(env, f"{folder.name.partition('-')[0]}/{module}", data)
    with (folder / "RECORD").open("a") as record:
        record.write(f"{path.relative_to(env.site)},,\n")


LACKING = [
    (elf("libc10.so", wants=("_ZN3c105ErrorC1Ev", CHECK)), CHECK),
    (elf(wants=("_ZNK5torch8autograd13SavedVariable6unpackEv",)), "SavedVariable"),
    (elf(wants=("_ZTVN5torch8autograd4NodeE",)), "_ZTV"),
    (elf("libtorch_cuda.so", "libc10_cuda.so", wants=(CUDA,)), CUDA),
    (
        elf(wants=("aoti_torch_get_current_cuda_stream",)),
        "aoti_torch_get_current_cuda_stream",
    ),
]


@pytest.mark.parametrize(("data", "says"), LACKING, ids=[says for _, says in LACKING])
def test_a_symbol_that_torch_does_not_define_is_found(
    data: bytes, says: str, env: Env
) -> None:
    torch_with(env)
    extension(env, data)
    (found,) = env.diagnose()
    assert (found.code, found.bad) == ("compiled-extension-abi-mismatch", True)
    assert says in found.evidence[1]
    assert "my-ops 0.1: _C.so needs" in found.evidence[1]
    assert "--no-binary my-ops my-ops==0.1" in found.remedy


SOUND = [
    elf(
        "libc10.so", wants=("_ZN3c105ErrorC1Ev", "_ZN2at5emptyEv", "_ZN3c106SymIntC1El")
    ),
    elf(weak=(CHECK,), wants=("_ZN3c105ErrorC1Ev",)),
    elf(wants=("PyLong_FromLong", "_ZNSt8bad_castC1Ev", "_ZN6my_ops3runEv")),
    elf(has=(CHECK,)),
    b"\x7fELF",
    elf(wants=(CHECK,))[:-20],
]


@pytest.mark.parametrize(
    "data", SOUND, ids=["all", "weak", "other", "own", "cut", "shorter"]
)
def test_what_torch_defines_or_others_do_is_no_fault(data: bytes, env: Env) -> None:
    torch_with(env)
    extension(env, data)
    assert env.codes() == []


def test_what_is_loaded_on_demand_or_optional_is_no_fault(env: Env) -> None:
    torch_with(env)
    extension(env, elf(wants=(CUDA,)), "codec", "libtorchcodec_core4.so")
    assert env.diagnose() == ()
    extension(env, elf(wants=(CUDA,)), "torchao", "_C_cutlass.so")
    assert [finding.bad for finding in env.diagnose()] == [False]


def test_a_torch_whose_libraries_are_elsewhere_is_not_judged(env: Env) -> None:
    env.torch("2.9.1")
    put(env, "torch/lib/libtorch_python.so", elf(has=("_ZN5torch1aEv",)))
    extension(env, elf(wants=(CHECK,)))
    assert env.codes() == []


def test_libraries_of_two_torches_in_one_folder(env: Env) -> None:
    torch_with(env)
    put(
        env,
        "torch/lib/libtorch_python.so",
        elf("libtorch_cpu.so", wants=("_ZN2at3newEv",)),
    )
    record = env.site / "torch-2.9.1+cpu.dist-info/RECORD"
    record.write_text(record.read_text() + "torch/lib/libtorch_python.so,,\n")
    (found,) = env.diagnose()
    assert found.code == "half-installed"
    assert (
        "--index-url https://download.pytorch.org/whl/cpu torch==2.9.1+cpu"
        in found.remedy
    )


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


def backend(env: Env, *pins: str) -> None:
    """Install a device backend that torch loads by itself."""
    folder = env.add("torch-npu", "2.9.0", *pins)
    (folder / "entry_points.txt").write_text(
        "[torch.backends]\ntorch_npu = torch_npu:_autoload\n"
    )
    put(
        env,
        "torch_npu/_C.cpython-311.so",
        elf("libtorch_npu.so", runpath="$ORIGIN/lib"),
    )
    put(env, "torch_npu/lib/libtorch_npu.so", elf("libhccl.so"))
    put(env, "torch_npu/lib/libop_plugin_atb.so", elf("libatb.so"))  # loaded on demand


CXX = "libstdc++.so.6"


def old_cxx(env: Env, *versions: str) -> Host:
    """Put a C++ library before the system's, and a torch that needs GLIBCXX_3.4.21."""
    env.torch("2.9.1+cpu")
    extension(env, elf(CXX, wants=("GLIBCXX_3.4", "GLIBCXX_3.4.21")), "ops")
    folder = env.prefix.parent / "old"
    folder.mkdir()
    (folder / CXX).write_bytes(elf(has=versions))
    return Host("linux-64", "6.8", variables={"LD_LIBRARY_PATH": f"/nowhere:{folder}/"})
