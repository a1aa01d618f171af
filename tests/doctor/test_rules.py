"""Environment rules, one by one: what must be found, and what must not."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import parser
from provision.core.errors import UsageError
from provision.core.findings import Finding, Level
from provision.core.project import RECORD
from provision.doctor import rules
from provision.doctor.context import Findings
from provision.doctor.diagnosis import diagnose_environment, diagnose_machine
from provision.doctor.rules import ENVIRONMENT_RULES
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.lockfile.pip import read_lock
from provision.spec.model import Target
from provision.spec.reader import load_spec
from tests.calls import count_calls
from tests.checkout import LOCKABLE, PROJECT
from tests.doctor.cards import ARC, RTX

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.catalog.devices import Devices
    from tests.doctor.conftest import Env

IPEX = "intel-extension-for-pytorch"
UHD = Gpu(
    "intel",
    "3e92",
    "UHD Graphics 630",
    "0000:00:02.0",
    "cfl",
    integrated=True,
    driver=Driver("i915"),
)
LUNAR = Gpu(
    "intel",
    "64a0",
    "Arc 140V",
    "0000:00:02.0",
    "lnl",
    supported=True,
    integrated=True,
    driver=Driver("xe"),
)
GTX = dataclasses.replace(
    RTX, name="GTX 1080", compute_capability="6.1", device_id="1b80"
)


def linux(*gpus: Gpu, runtime: str | None = "25.18.33578", **variables: str) -> Host:
    return Host(
        "linux-64",
        "6.8",
        gpus=gpus,
        variables=variables,
        runtimes=Runtimes(level_zero="1.17", compute_runtime=runtime),
    )


def target(accelerator: str, **more: object) -> Target:
    spec = {
        "name": f"{accelerator}-linux",
        "summary": "x",
        "accelerator": accelerator,
        "platform": "linux-64",
        "python": "3.11",
        "pip": {"cutoff": "2026-11-01", "requirements": ["torch"]},
    }
    return Target.model_validate(spec | more, strict=False)


SPECS = [PROJECT.specs / f"{name}.toml" for name in LOCKABLE]
# Each case dirties a sound environment: what is done to it, and the one code that must be found.
CASES: list[tuple[str, str, Callable[[Env], None]]] = []


def case(code: str) -> Callable[[Callable[[Env], None]], Callable[[Env], None]]:
    def register(dirty: Callable[[Env], None]) -> Callable[[Env], None]:
        CASES.append((code, dirty.__name__, dirty))
        return dirty

    return register


@case("cpu-build-of-torch-installed")
def cpu_torch_beside_a_card(env: Env) -> None:
    env.torch("2.9.1+cpu")
    env.host = linux(ARC)


@case("wrong-index-resolved")
def cuda_torch_for_an_xpu_target(env: Env) -> None:
    env.torch("2.9.1+cu128", cuda="12.8")
    env.target = target("xpu")


@case("triton-missing-or-incompatible")
def triton_of_another_version(env: Env) -> None:
    env.torch("2.8.0", "triton==3.4.0; platform_system == 'Linux'")
    env.add("triton", "3.1.0")


@case("triton-missing-or-incompatible")
def nvidia_triton_beside_the_one_for_xpu(env: Env) -> None:
    env.torch("2.14.0+xpu", "triton-xpu==3.8.0")
    env.add("triton-xpu", "3.8.0")
    env.add("triton", "3.8.0")


@case("transformers-version-too-new-for-ipex-llm")
def new_transformers(env: Env) -> None:
    env.torch("2.1.0a0")
    env.add("ipex-llm", "2.2.0", "transformers ==4.37.0 ; extra == 'xpu'")
    env.add("transformers", "4.51.0")


@case("numpy2-abi")
def new_numpy(env: Env) -> None:
    env.torch("2.1.2")
    env.add("numpy", "2.1.2")


@case("dependency-conflict")
def contradiction(env: Env) -> None:
    env.add("transformers", "5.0.0", "huggingface-hub>=1.0")
    env.add("huggingface-hub", "0.30.0")


@case("cuda-library-mismatch")
def other_nvidia_library(env: Env) -> None:
    env.torch("2.5.1", "nvidia-nvjitlink-cu12==12.4.127", cuda="12.4")
    env.add("nvidia-nvjitlink-cu12", "12.1.105")


@case("half-installed")
def leftover_of_an_interrupted_pip(env: Env) -> None:
    env.torch("2.9.1+cpu")
    (env.site / "~orch-2.8.0.dist-info").mkdir()


@case("half-installed")
def metadata_is_gone(env: Env) -> None:
    (env.add("numpy", "2.4.0") / "METADATA").unlink()


@case("half-installed")
def installed_twice(env: Env) -> None:
    env.add("numpy", "2.4.0")
    env.add("numpy", "1.26.4")


@case("half-installed")
def torch_of_another_release_than_its_metadata(env: Env) -> None:
    env.torch("2.6.0+cpu")
    metadata = env.site / "torch-2.6.0+cpu.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("2.6.0+cpu", "2.4.0"))


@case("wrong-interpreter-site-packages")
def interpreter_is_gone(env: Env) -> None:
    (env.prefix / "bin").mkdir()
    (env.prefix / "bin/python").symlink_to(env.prefix / "nowhere/python3.11")


@case("wrong-interpreter-site-packages")
def pythonhome(env: Env) -> None:
    env.host = linux(PYTHONHOME="/usr")


@case("wrong-interpreter-site-packages")
def user_site_before_an_open_environment(env: Env) -> None:
    (env.prefix / "pyvenv.cfg").unlink()
    env.torch("2.9.1+cpu")
    env.home = env.prefix.parent / "home"
    user = env.home / ".local/lib/python3.11/site-packages"
    (user / "torch-2.5.1.dist-info").mkdir(parents=True)


@case("oneapi-version-conflict")
def setvars_over_pip_runtimes(env: Env) -> None:
    env.torch("2.9.1+xpu")
    env.add("intel-sycl-rt", "2025.2.1")
    env.host = linux(ARC, LD_LIBRARY_PATH="/opt/intel/oneapi/compiler/2025.1/lib")


@case("igpu-selected-instead-of-dgpu")
def only_the_integrated_one_is_left(env: Env) -> None:
    env.torch("2.9.1+xpu")
    env.host = linux(LUNAR, ARC, ONEAPI_DEVICE_SELECTOR="level_zero:1")


@case("no-gpu-device-visible")
def everything_is_hidden(env: Env) -> None:
    env.torch("2.9.1+cu128", cuda="12.8")
    env.host = linux(RTX, CUDA_VISIBLE_DEVICES="")


@case("unsupported-gpu-architecture")
def pascal_with_cuda_13(env: Env) -> None:
    env.torch("2.13.0", cuda="13.0")
    env.host = linux(GTX)


@case("driver-too-old")
def old_nvidia_driver(env: Env) -> None:
    env.torch("2.13.0", cuda="13.0")
    env.host = linux(dataclasses.replace(RTX, driver=Driver("nvidia", "535.183.01")))


@case("driver-too-old")
def old_compute_runtime(env: Env) -> None:
    env.torch("2.13.0+xpu")
    env.host = linux(ARC, runtime="24.39.31294")


@case("ipex-llm-with-separate-ipex")
def ipex_of_another_minor_than_the_xe_core(env: Env) -> None:
    env.torch("2.5.1+cxx11.abi")
    env.add("bigdl-core-xe-21", "2.6.0")
    env.add(IPEX, "2.5.10+xpu")


@case("torch-companion-mismatch")
def xformers_pins_another_torch(env: Env) -> None:
    env.torch("2.5.0+cu124", cuda="12.4")
    env.add("xformers", "0.0.28.post1+cu121", "torch==2.4.1")


@case("compiled-extension-abi-mismatch")
def wheel_whose_version_names_another_torch(env: Env) -> None:
    env.torch("2.10.0+cu128", cuda="12.8")
    env.add("torch-scatter", "2.1.2+pt23cu121")
    env.add("torch-sparse", "0.6.18+pt210cu128")


@case("torch-companion-mismatch")
def vision_for_cuda_beside_a_cpu_torch(env: Env) -> None:
    env.torch("2.2.1+cpu")
    env.add("torchvision", "0.17.1", "torch==2.2.1")


@case("ipex-torch-version-mismatch")
def ipex_for_xpu_beside_the_cpu_build(env: Env) -> None:
    env.torch("2.0.1+cpu")
    env.add(IPEX, "2.0.110+xpu")


@case("oneapi-version-conflict")
def runtime_of_another_oneapi(env: Env) -> None:
    env.torch("2.6.0+xpu", "intel-sycl-rt==2025.0.2")
    env.add("intel-sycl-rt", "2025.0.4")


@case("wrong-interpreter-site-packages")
def modules_for_another_python(env: Env) -> None:
    record = env.add("numpy", "1.21.5") / "RECORD"
    module = "numpy/core/_multiarray_umath.cpython-310-x86_64-linux-gnu.so"
    record.write_text(record.read_text() + f"{module},,\n")
    (env.site / module).parent.mkdir()
    (env.site / module).touch()


@pytest.mark.parametrize(
    ("code", "name", "dirty"), CASES, ids=[f"{c}:{n}" for c, n, _ in CASES]
)
def test_found(code: str, name: str, dirty: Callable[[Env], None], env: Env) -> None:
    dirty(env)
    found = env.diagnose()
    assert [finding.code for finding in found if finding.bad] == [code], found
    for finding in found:
        assert finding.evidence
        assert finding.remedy


FOREIGN = re.compile(r"\buv (pip|venv|add|sync)\b|\bpip install\b|\bconda install\b")


@pytest.mark.parametrize(
    ("code", "name", "dirty"), CASES, ids=[f"{c}:{n}" for c, n, _ in CASES]
)
def test_what_provision_built_is_mended_by_its_own_verbs(
    code: str, name: str, dirty: Callable[[Env], None], env: Env
) -> None:
    (env.prefix / RECORD).write_text('{"target": "thing-linux"}')
    dirty(env)
    for finding in env.diagnose():
        assert not FOREIGN.search(finding.remedy), finding.remedy
        for command in re.findall(r"`provision ([^`]+)`", finding.remedy):
            words = shlex.split(command)
            assert parser([words[0]]).parse_args(words)


@pytest.mark.parametrize(
    ("code", "name", "dirty"), CASES, ids=[f"{c}:{n}" for c, n, _ in CASES]
)
def test_a_command_of_uv_names_the_environment(
    code: str, name: str, dirty: Callable[[Env], None], env: Env
) -> None:
    dirty(env)
    env.add("accelerate", "1.4.0")
    for finding in env.diagnose():
        for command in re.findall(r"uv pip \w+[^`]*", finding.remedy):
            assert f"--python {env.prefix}" in command, finding.remedy


def test_every_rule_is_applied() -> None:
    modules = [
        importlib.import_module(f"{rules.__name__}.{found.name}")
        for found in pkgutil.iter_modules(rules.__path__)
    ]
    written = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
        and list(inspect.signature(function).parameters) == ["context"]
        and inspect.signature(function).return_annotation in ("Findings", Findings)
    }
    assert len(written) > 20
    assert written == set(ENVIRONMENT_RULES)


def test_healthy_environments_are_left_alone(env: Env) -> None:
    env.torch("2.9.1+xpu", "pytorch-triton-xpu==3.5.0", "numpy; extra == 'x'")
    env.add("torchvision", "0.24.1+xpu", "torch==2.9.1")
    env.add("pytorch-triton-xpu", "3.5.0", module="triton")
    env.add("numpy", "2.4.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    env.add("safetensors", "0.8.0", tag="cp38-abi3-manylinux_2_17_x86_64")
    env.host = linux(ARC)
    assert env.diagnose() == ()
    env.target = target("xpu")
    assert env.diagnose() == ()


@pytest.mark.parametrize(
    ("tag", "marker"),
    [
        ("cp311-cp311-manylinux_2_28_aarch64", "platform_machine == 'x86_64'"),
        ("cp311-none-macosx_11_0_arm64", "sys_platform == 'linux'"),
        ("cp311-none-macosx_11_0_arm64", "platform_machine == 'x86_64'"),
    ],
)
def test_requirements_for_other_platforms_are_ignored(
    env: Env, tag: str, marker: str
) -> None:
    env.torch("2.5.1", f"triton==3.1.0; {marker}")
    env.add("torchvision", "0.20.1", "torch==2.5.1", tag=tag)
    assert env.codes() == []


@pytest.mark.parametrize(
    ("torch", "name", "version", "wrong"),
    [
        ("2.15.0", "torchvision", "0.29.2", False),  # of the stable ABI
        ("2.13.0", "torchvision", "0.29.2", True),
        ("2.15.0", "torchvision", "0.28.0", True),
        ("2.15.0", "torchaudio", "2.11.0", False),
        ("2.4.0a0+07cecf4168.nv24.5", "torchvision", "0.19.0a0+48b1edf", False),
        ("2.9.1+cu128", "flash-attn", "2.8.3+cu12torch2.9cxx11abiTRUE", False),
        ("2.9.1+cu128", "flash-attn", "2.8.3+cu12torch2.9cxx11abiFALSE", True),
    ],
)
def test_builds_of_one_torch_beside_another(
    env: Env, torch: str, name: str, version: str, wrong: bool
) -> None:
    env.torch(torch, cuda="13.2")
    env.add(name, version)
    assert bool(env.codes()) is wrong


def test_ipex_llm_as_its_target_builds_it_gets_a_note_only(env: Env) -> None:
    env.torch("2.1.0a0+cxx11.abi")
    pins = (
        f"{IPEX} ==2.1.10+xpu ; extra == 'xpu'",
        "transformers ==4.37.0 ; extra == 'xpu'",
    )
    env.add("ipex-llm", "2.2.0", *pins)
    env.add(IPEX, "2.1.10+xpu")
    env.add("transformers", "4.37.0")
    env.add("bigdl-core-xe-21", "2.6.0")
    env.target = target("xpu", status="legacy", reason="archived")
    (note,) = env.diagnose()
    assert (note.code, note.level) == ("index-retired", Level.NOTE)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_what_our_locks_install_is_left_alone(
    path: Path, env: Env, windows_env: Env
) -> None:
    target = load_spec(path)
    lock = read_lock(path.parents[1] / "lockfiles" / path.stem)
    one = windows_env if target.platform == "win-64" else env
    one = dataclasses.replace(one, python=target.python, target=target)
    for name, version in lock.versions.items():
        if name != "torch":
            one.add(name, version)
    one.torch(
        lock.versions["torch"], cuda="13.0" if target.accelerator == "cuda" else None
    )
    assert one.codes() == []


def test_overrides_of_a_target_are_no_conflict(env: Env) -> None:
    env.add("transformers", "5.0.0", "huggingface-hub>=1.0")
    env.add("huggingface-hub", "0.30.0")
    pip = {
        "cutoff": "2026-11-01",
        "requirements": ["torch"],
        "overrides": [{"requirement": "huggingface-hub==0.30", "reason": "x"}],
    }
    env.target = target("cpu", pip=pip)
    assert env.codes() == []


def test_the_machine_by_itself(devices: Devices) -> None:
    def codes(host: Host) -> list[str]:
        return [finding.code for finding in diagnose_machine(host, devices).findings]

    assert codes(linux()) == []
    assert codes(linux(ARC, RTX)) == []
    assert codes(linux(UHD)) == [], "a machine without a GPU for PyTorch is a sound one"
    assert codes(linux(ARC, runtime=None)) == ["oneapi-runtime-missing"]
    assert codes(linux(RTX, CUDA_VISIBLE_DEVICES="")) == ["no-gpu-device-visible"]
    assert codes(linux(ONEAPI_DEVICE_SELECTOR="a:b:c")) == ["selector-syntax"]
    bare = dataclasses.replace(RTX, driver=None)
    assert codes(linux(ARC, bare)) == ["driver-missing"]


def test_accelerate_that_cannot_offload_to_xpu_is_a_note(env: Env) -> None:
    env.host = linux(ARC)
    env.torch("2.9.1+xpu")
    env.add("accelerate", "1.5.2")
    (note,) = env.diagnose()
    assert (note.code, note.level) == ("accelerate-offload-keyerror", Level.NOTE)


def test_facts_come_first(env: Env) -> None:
    env.torch("2.9.1+xpu")
    env.add("numpy", "2.2.0")
    env.add("six", "1.17.0")
    env.host = linux(ARC)
    facts = diagnose_environment(
        env.prefix, env.host, env.devices, root=env.prefix
    ).facts
    assert list(facts.items())[:4] == [
        ("Python", "3.11"),
        ("torch", "2.9.1+xpu, built for xpu"),
        ("numpy", "2.2.0"),
        ("distributions", "3"),
    ]
    assert facts["compute-runtime"] == env.host.runtimes.compute_runtime


@pytest.mark.parametrize("name", ["", "env/bin/nothing"])
def test_no_environment_is_a_usage_error(name: str, env: Env) -> None:
    env.torch("2.9.1+cpu")
    with pytest.raises(UsageError, match="no Python environment"):
        diagnose_environment(env.prefix.parent / name, env.host, env.devices)


def test_garbage_does_not_raise(env: Env) -> None:
    env.torch("not a version")
    env.add("numpy", "1.x.y", "this is (no requirement", requires_python="what")
    env.add("torchvision", "", "torch==", "torch>=2;;")
    for number, data in enumerate((b"\xff\xfe\0", b"", b"Name\nVersion\n" * 99)):
        folder = env.site / f"bad{number}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_bytes(data)
        (folder / "RECORD").write_bytes(data + b'"unclosed,,,\n')
    (env.site / "loop.dist-info").symlink_to(env.site / "loop.dist-info")
    (env.site / "x.pth").write_bytes(b"\0\xff\n/\0bad\n")
    (env.site / "torch/version.py").write_bytes(b"\xff__version__ = '")
    (env.site / "egg.egg-info").write_text("Name: /../**\nVersion: \n")
    (env.site / "dir.egg-info").mkdir()
    env.add(
        "accelerate",
        "1.0",
        "numpy; python_full_version < '3.13'",
        "x; python_version > '3'",
    )
    for config in (
        b"\xff=\n==",
        b"version_info = what\n",
        b"version_info = 3.11.9.final.0\n",
    ):
        (env.prefix / "pyvenv.cfg").write_bytes(config)
        env.diagnose()


def test_a_diagnosis_is_linear_in_the_number_of_distributions(env: Env) -> None:
    env.torch("2.9.1+xpu")
    calls, added = [], 0
    for count in (20, 40, 80):
        for number in range(added, count):
            env.add(
                f"package-{number}", "1.0", *(f"package-{n}>=0.1" for n in range(8))
            )
        added = count
        assert env.codes() == []  # imports, and fills caches
        calls.append(count_calls(env.codes))
    few, more, many = calls
    assert many - more <= 2.02 * (more - few)


def _module(folder: Path, name: str = "torch") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()


def test_a_folder_ahead_that_hides_torch_is_an_error_with_who_put_it_there(
    env: Env,
) -> None:
    env.torch("2.9.1+cpu")
    other = env.prefix.parent / "other"
    _module(other)
    env.host = linux(PYTHONPATH=f"/nowhere:{other}")
    bad = [finding for finding in env.diagnose() if finding.bad]
    assert [f.code for f in bad] == ["wrong-interpreter-site-packages"]
    assert bad[0].evidence == (f"PYTHONPATH: {other} has torch",)
    assert "PYTHONPATH" in bad[0].remedy


def test_folders_that_hide_nothing_are_left_alone(env: Env) -> None:
    env.torch("2.9.1+cpu")
    beside = env.prefix.parent
    (beside / "namespace/torch").mkdir(
        parents=True
    )  # gives way to a package with __init__.py
    (beside / "same").symlink_to(env.site)
    _module(beside / "vendored/third_party")
    _module(beside / "editable", "einops")
    _module(beside / "editable", "numpy")  # which only this folder has
    names = ("namespace", "same/../same/", "vendored", "editable")
    env.host = linux(
        PYTHONPATH=":".join(str(beside / name) for name in names if name != "same")
    )
    assert env.codes() == []


def test_a_replaced_interpreter_sees_no_packages(env: Env) -> None:
    (env.prefix / "bin").mkdir()
    (env.prefix / "base").mkdir()
    for name in ("python3.11", "python3.12", "python3"):
        (env.prefix / "base" / name).touch()
    link = env.prefix / "bin/python"
    for harmless in ("python3.11", "python3"):
        link.symlink_to(env.prefix / "base" / harmless)
        assert env.codes() == []
        link.unlink()
    link.symlink_to(env.prefix / "base/python3.12")
    (found,) = env.diagnose()
    assert (found.code, found.level) == ("wrong-interpreter-site-packages", Level.ERROR)
    assert "is python3.12, and the packages are in" in found.evidence[0]
    assert "uv venv --python 3.11" in found.remedy


def text(finding: Finding) -> str:
    return " ".join((finding.symptom, *finding.evidence))


def test_one_fault_is_told_once_with_the_remedy_of_the_lock(env: Env) -> None:
    lock = read_lock(Path(__file__).parents[2] / "lockfiles" / "cpu-linux")
    for name, version in lock.versions.items():
        if name not in ("numpy", "torch", "accelerate"):
            env.add(name, version)
    env.torch(lock.versions["torch"])
    env.add("numpy", "1.26.4")
    env.add("accelerate", lock.versions["accelerate"], "numpy>=2", "torch")
    (env.site / "jinja2/__init__.py").unlink()
    (env.site / "evil.pth").write_text("import sys; sys.path.insert(0, '/nowhere')\n")
    (env.prefix / "provision.json").write_text("{}")
    shadow = env.prefix.parent / "shadow"
    _module(shadow)
    env.host = linux(PYTHONPATH=str(shadow))  # which no repair of the environment mends
    found = diagnose_environment(
        env.prefix, env.host, env.devices, lock=lock, root=env.prefix
    ).findings
    for word in ("jinja2", "numpy", "evil.pth"):
        (about,) = (finding for finding in found if word in text(finding))
        assert "`provision verify cpu-linux --repair`" in about.remedy
    for finding in found:
        assert "uv pip" not in finding.remedy
    assert any(str(shadow) in " ".join(finding.evidence) for finding in found)
