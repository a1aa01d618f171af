"""The five failures that the project starts from: provoked, named, and healed by their remedy.

Real are the programs, the interpreters, torch's dispatcher and its errors, Accelerate 1.5.2, IPEX
2.5.0 and uv. Stand-ins are the device (`tests/smoke/pretend.py`, whose name is put as xpu into the
log, as no XPU is needed to run this) and the CUDA build of torch, of which IPEX asks the version.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.process import clean_environment, run
from provision.doctor import diagnose_log
from provision.doctor.diagnosis import diagnose_environment
from provision.host.model import Driver, Gpu, Host

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.core.process import Completed
    from tests.doctor.conftest import Env

PROGRAMS = Path(__file__).parent / "programs"
SMOKE = Path(__file__).parents[1] / "smoke"
CARD = Gpu(
    "nvidia",
    "2204",
    "RTX 3090",
    "0000:01:00.0",
    "ampere",
    supported=True,
    compute_capability="8.6",
    driver=Driver("nvidia", "580.95.05"),
)
pytestmark = pytest.mark.machine


def execute(
    python: Path, program: str, *arguments: str | Path
) -> tuple[Completed, str]:
    """Run a program; return how it ended, and the log that its user would paste."""
    environment = clean_environment(extra={"PYTHONPATH": str(SMOKE)})
    done = run([python, PROGRAMS / program, *arguments], env=environment, timeout=120)
    line = " ".join(["$ python", program, *map(str, arguments)])
    return done, f"{line}\n{done.stdout}{done.stderr}".replace("pretend:0", "xpu:0")


def codes(log: str) -> list[str]:
    return [finding.code for finding in diagnose_log(log)]


def bad(log: str) -> list[str]:
    return [finding.code for finding in diagnose_log(log) if finding.bad]


def test_fused_operator_on_cpu_tensors(python: Path) -> None:
    broken, log = execute(python, "fused.py", "cpu")
    assert broken.returncode == 1
    assert codes(log) == ["fused-op-on-cpu-backend"]
    healed, log = execute(python, "fused.py", "pretend")  # "move … to the device"
    assert healed.returncode == 0, log
    assert codes(log) == []


def test_resume_in_the_wrong_order(python: Path) -> None:
    broken, log = execute(python, "resume.py", "optimizer-first")
    assert broken.returncode == 1
    assert codes(log) == ["mixed-devices-on-resume"], log
    healed, log = execute(
        python, "resume.py", "model-first"
    )  # "move it to the device, build …"
    assert healed.returncode == 0, log
    assert codes(log) == []


@pytest.mark.network
def test_offload_with_an_old_accelerate(python: Path, tmp_path: Path) -> None:
    install = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--no-deps",
        "--python",
        python,
    ]
    run([*install, "--target", tmp_path / "old", "accelerate==1.5.2"]).require(
        "no accelerate"
    )
    broken, log = execute(python, "offload.py", tmp_path / "old")
    assert broken.returncode == 1
    (finding,) = diagnose_log(log)
    assert finding.code == "accelerate-offload-keyerror"
    assert "accelerate==1.6.0" in finding.remedy
    run([*install, "--target", tmp_path / "new", "accelerate==1.6.0"]).require(
        "no accelerate"
    )
    healed, log = execute(python, "offload.py", tmp_path / "new")
    assert healed.returncode == 0, log
    assert codes(log) == []


def test_flag_that_is_always_true_and_noise_beside_it(python: Path) -> None:
    broken, log = execute(python, "flags.py", "--cuda", "False")
    assert broken.returncode == 1
    first, *others = diagnose_log(log)
    assert first.code == "argparse-bool"
    assert "BooleanOptionalAction" in first.remedy
    assert [finding.code for finding in others if not finding.bad] == [
        "kernel-override-warning-benign"
    ]
    healed, log = execute(python, "flags.py", "--mended", "--no-cuda")
    assert healed.returncode == 0, log
    assert codes(log) == ["kernel-override-warning-benign"]


@pytest.mark.network
def test_ipex_in_a_cuda_environment(env: Env, devices: Devices) -> None:
    uv = [sys.executable, "-m", "uv"]
    run([*uv, "venv", "--clear", "--python", sys.executable, env.prefix]).require(
        "no environment"
    )
    host = Host("linux-64", "6.8", gpus=(CARD,))
    env.python = f"3.{sys.version_info.minor}"
    env.torch("2.8.0+cu128", cuda="12.8")
    (env.site / "torch" / "__init__.py").write_text(
        "from torch.version import __version__\n"
    )
    python = env.prefix / "bin" / "python"
    ipex = "intel-extension-for-pytorch==2.5.0"
    run([*uv, "pip", "install", "--no-deps", "--python", python, ipex]).require(
        "no IPEX"
    )
    broken, log = execute(python, "train.py")
    assert broken.returncode == 127, "SystemExit passes `except Exception`"
    assert codes(log) == ["ipex-in-cuda-env"]
    found = diagnose_environment(python, host, devices).findings
    assert found[0].code == "ipex-in-cuda-env"
    assert found[0].remedy.startswith("Run `uv pip uninstall ")
    uninstall = [
        *uv,
        "pip",
        "uninstall",
        "--python",
        python,
        "intel-extension-for-pytorch",
    ]
    run(uninstall).require("cannot uninstall")
    healed, log = execute(python, "train.py")
    assert healed.returncode == 0
    assert bad(log) == []
    assert diagnose_environment(python, host, devices).findings == ()


def test_healthy_environment_gets_no_accusation(python: Path, devices: Devices) -> None:
    found = diagnose_environment(python, Host("linux-64", "6.8"), devices)
    assert [finding for finding in found.findings if finding.bad] == []
