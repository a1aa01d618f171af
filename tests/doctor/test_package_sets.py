"""The same set of packages is judged alike: installed, locked, or required by a repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from provision.doctor.locked import diagnose_lock
from provision.doctor.repository import read_repository
from provision.doctor.rules.locks import judge
from provision.host.model import Host
from tests.doctor.cards import RTX
from tests.doctor.conftest import Env
from tests.doctor.test_locked import locked, target

if TYPE_CHECKING:
    from pathlib import Path

    from provision.catalog.devices import Devices
    from provision.core.findings import Finding

IPEX = "intel-extension-for-pytorch"
XPU = "--index-url https://download.pytorch.org/whl/xpu"


@dataclass(frozen=True)
class Bad:
    """Packages that do not work together, the code that says so and the target to build."""

    code: str
    build: str
    pins: tuple[str, ...]
    cuda: str | None = None
    platform: str = "linux-64"
    accelerator: str = "xpu"


SETS = {
    "IPEX of another torch": Bad(
        "ipex-torch-version-mismatch",
        "provision build arc-linux",
        ("torch==2.9.1+xpu", f"{IPEX}==2.8.10+xpu"),
    ),
    "IPEX in a CUDA environment": Bad(
        "ipex-in-cuda-env",
        "provision build cuda-linux",
        ("torch==2.8.0+cu128", f"{IPEX}==2.8.0"),
        cuda="12.8",
        accelerator="cuda",
    ),
    "a second IPEX beside ipex-llm": Bad(
        "ipex-llm-with-separate-ipex",
        "provision build ipex-llm-linux",
        (
            "torch==2.3.1+cxx11.abi",
            "ipex-llm==2.2.0",
            "bigdl-core-xe-21==2.6.0",
            f"{IPEX}==2.3.110+xpu",
        ),
    ),
    "triton-windows beside torch for XPU": Bad(
        "triton-missing-or-incompatible",
        "provision build arc-windows",
        ("torch==2.9.1+xpu", "triton-windows==3.5.0"),
        platform="win-64",
    ),
    "packages for CUDA beside torch for XPU": Bad(
        "torch-companion-mismatch",
        "provision build arc-linux",
        ("torch==2.9.1+xpu", "flash-attn==2.8.3"),
    ),
    "torchvision for CUDA beside torch for XPU": Bad(
        "torch-companion-mismatch",
        "provision build arc-linux",
        ("torch==2.9.1+xpu", "torchvision==0.24.1+cu128"),
    ),
}
# What a requirement file leaves open: its lines, the code, and the command of the remedy.
OPEN = {
    "torch and IPEX without versions": (
        ("torch", IPEX),
        "ipex-torch-version-mismatch",
        "provision build arc-linux",
    ),
    "torch with a lower bound and IPEX": (
        ("torch>=2.1", f"{IPEX}~=2.8.0"),
        "ipex-torch-version-mismatch",
        "provision build arc-linux",
    ),
    "IPEX beside ipex-llm, without torch": (
        ("ipex-llm[xpu]", IPEX),
        "ipex-llm-with-separate-ipex",
        "provision build ipex-llm-linux",
    ),
    "unsloth beside torch of the XPU index": (
        (XPU, "torch", "unsloth"),
        "triton-missing-or-incompatible",
        "provision build arc-windows",
    ),
}
SOUND = (
    ("torch==2.8.0+cpu", f"{IPEX}==2.8.0"),
    ("torch==2.8.0", f"{IPEX}==2.8.0"),  # the default index has no other build
    ("torch<2.9,>=2.8", f"{IPEX}", "--index-url https://download.pytorch.org/whl/cpu"),
    ("ipex-llm[xpu]==2.2.0", f"{IPEX}==2.1.10+xpu", "torch==2.1.0a0+cxx11.abi"),
    ("torch==2.9.1+xpu", "torchvision==0.24.1+xpu", "pytorch-triton-xpu==3.5.0"),
    ("torch", "torchvision", "unsloth", "xformers", "flash-attn"),
)


def installed(bad: Bad, tmp_path: Path, devices: Devices) -> list[Finding]:
    windows = bad.platform == "win-64"
    env = Env(tmp_path / "env", devices, windows=windows, host=Host(bad.platform, ""))
    for pin in bad.pins:
        name, version = pin.split("==")
        if name == "torch":
            env.torch(version, cuda=bad.cuda)
        elif name == "ipex-llm":
            env.add(name, version, f"{IPEX}==2.1.10+xpu; extra == 'xpu'")
        else:
            env.add(name, version)
    return list(env.diagnose())


def required(lines: tuple[str, ...], tmp_path: Path, devices: Devices) -> list[Finding]:
    folder = tmp_path / "repository"
    folder.mkdir(exist_ok=True)
    (folder / "requirements.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return judge(read_repository(folder), Host("linux-64", ""), devices)


@pytest.mark.parametrize("name", SETS)
def test_one_set_is_judged_alike(name: str, tmp_path: Path, devices: Devices) -> None:
    bad = SETS[name]
    of = target(None, bad.platform, bad.accelerator)
    judged = {
        "installed": installed(bad, tmp_path, devices),
        "required": required(bad.pins, tmp_path, devices),
        "locked": diagnose_lock(of, locked(of, *bad.pins), {}),
    }
    for state, findings in judged.items():
        told = [finding for finding in findings if finding.code == bad.code]
        assert told, (state, [finding.code for finding in findings])
        assert told[0].level == "error", state
        assert any(bad.build in finding.remedy for finding in told), (state, told)
        evidence = " ".join(line for finding in told for line in finding.evidence)
        if state != "required":
            assert f"is {state}" in evidence


def test_what_a_file_leaves_open_is_judged_by_what_an_installer_takes(
    tmp_path: Path, devices: Devices
) -> None:
    for name, (lines, code, build) in OPEN.items():
        findings = required(lines, tmp_path, devices)
        told = [finding for finding in findings if finding.code == code]
        assert [finding.level for finding in told] == ["error"] * len(told), name
        assert any(build in finding.remedy for finding in told), (name, findings)


def test_torch_is_the_one_that_ipex_llm_pins(tmp_path: Path, devices: Devices) -> None:
    lines = ("ipex-llm[xpu]==2.2.0", f"{IPEX}==2.3.110+xpu", "transformers==4.45.0")
    (finding,) = required(lines, tmp_path, devices)  # IPEX is accused once
    assert finding.code == "ipex-llm-with-separate-ipex"
    place = "requirements.txt:1, with ipex-llm: torch 2.1.0a0"
    assert finding.evidence[0].startswith(place)
    assert not required(lines[:1], tmp_path, devices)


def test_sets_that_work_together_are_accepted(tmp_path: Path, devices: Devices) -> None:
    for lines in SOUND:
        findings = required(lines, tmp_path, devices)
        assert not [finding for finding in findings if finding.bad], lines


def test_ipex_on_a_machine_with_nvidia_alone_is_an_error(env: Env) -> None:
    env.torch("2.8.0+cpu")
    env.add(IPEX, "2.8.0")
    env.host = Host("linux-64", "", gpus=(RTX,))
    told = {finding.code: finding for finding in env.diagnose()}["ipex-in-cuda-env"]
    assert told.level == "error"
    assert "provision build cuda-linux" in told.remedy
    assert "the machine has RTX 3090" in told.evidence
