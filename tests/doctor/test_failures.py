"""The five failures that the project starts from: provoked, named, and healed by their remedy.

Real are the programs, the interpreters, torch's dispatcher and its errors, Accelerate 1.5.2, IPEX
2.5.0 and uv. Stand-ins are the device (`tests/smoke/pretend.py`, whose name is put as xpu into the
log, as no XPU is needed to run this) and the CUDA build of torch, of which IPEX asks the version.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.core.process import clean_environment, run
from provision.doctor import diagnose_log
from provision.doctor.diagnosis import diagnose_environment
from provision.host.model import Host
from tests.doctor.cards import RTX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.catalog.devices import Devices
    from tests.doctor.conftest import Env

PROGRAMS = Path(__file__).parent / "programs"
SMOKE = Path(__file__).parents[1] / "smoke"
pytestmark = pytest.mark.machine


class Forks:
    """A process that has loaded torch, in whose forks programs run."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.folder, pipe = folder, subprocess.PIPE
        environment = clean_environment(extra={"PYTHONPATH": str(SMOKE)})
        argv = [python, PROGRAMS / "forks.py"]
        self.process = subprocess.Popen(
            argv, env=environment, stdin=pipe, stdout=pipe, text=True
        )

    def execute(self, program: str, *arguments: str | Path) -> tuple[int, str]:
        """Run a program; return its exit code, and the log that its user would paste."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        files = [self.folder / "out", self.folder / "err"]
        for path in files:
            path.unlink(missing_ok=True)
        words = [str(PROGRAMS / program), *map(str, arguments)]
        print(
            json.dumps([words, *map(str, files)]), file=self.process.stdin, flush=True
        )
        code = int(self.process.stdout.readline())
        printed = "".join(path.read_text() for path in files)
        return code, pasted(program, *arguments, printed=printed)


def pasted(program: str, *arguments: str | Path, printed: str) -> str:
    line = " ".join(["$ python", program, *map(str, arguments)])
    return f"{line}\n{printed}".replace("pretend:0", "xpu:0")


@pytest.fixture(scope="module")
def forks(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    made = Forks(python, tmp_path_factory.mktemp("programs"))
    yield made
    made.process.communicate()


def codes(log: str) -> list[str]:
    return [finding.code for finding in diagnose_log(log)]


def bad(log: str) -> list[str]:
    return [finding.code for finding in diagnose_log(log) if finding.bad]


def test_fused_operator_on_cpu_tensors(forks: Forks) -> None:
    broken, log = forks.execute("fused.py", "cpu")
    assert broken == 1
    assert codes(log) == ["fused-op-on-cpu-backend"]
    healed, log = forks.execute("fused.py", "pretend")  # "move … to the device"
    assert healed == 0, log
    assert codes(log) == []


def test_resume_in_the_wrong_order(forks: Forks) -> None:
    broken, log = forks.execute("resume.py", "optimizer-first")
    assert broken == 1
    assert codes(log) == ["mixed-devices-on-resume"], log
    # "move it to the device, build …"
    healed, log = forks.execute("resume.py", "model-first")
    assert healed == 0, log
    assert codes(log) == []


@pytest.mark.network
def test_offload_with_an_old_accelerate(
    forks: Forks, python: Path, tmp_path: Path
) -> None:
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
    broken, log = forks.execute("offload.py", tmp_path / "old")
    assert broken == 1
    (finding,) = diagnose_log(log)
    assert finding.code == "accelerate-offload-keyerror"
    assert "accelerate==1.6.0" in finding.remedy
    run([*install, "--target", tmp_path / "new", "accelerate==1.6.0"]).require(
        "no accelerate"
    )
    healed, log = forks.execute("offload.py", tmp_path / "new")
    assert healed == 0, log
    assert codes(log) == []


def test_flag_that_is_always_true_and_noise_beside_it(forks: Forks) -> None:
    broken, log = forks.execute("flags.py", "--cuda", "False")
    assert broken == 1
    first, *others = diagnose_log(log)
    assert first.code == "argparse-bool"
    assert "BooleanOptionalAction" in first.remedy
    assert [finding.code for finding in others if not finding.bad] == [
        "kernel-override-warning-benign"
    ]
    healed, log = forks.execute("flags.py", "--mended", "--no-cuda")
    assert healed == 0, log
    assert codes(log) == ["kernel-override-warning-benign"]


@pytest.mark.network
def test_ipex_in_a_cuda_environment(env: Env, devices: Devices) -> None:
    uv = [sys.executable, "-m", "uv"]
    run([*uv, "venv", "--clear", "--python", sys.executable, env.prefix]).require(
        "no environment"
    )
    host = Host("linux-64", "6.8", gpus=(RTX,))
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
    broken = run([python, PROGRAMS / "train.py"], env=clean_environment())
    log = pasted("train.py", printed=broken.stdout + broken.stderr)
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
    healed = run([python, PROGRAMS / "train.py"], env=clean_environment())
    assert healed.returncode == 0
    assert bad(pasted("train.py", printed=healed.stdout + healed.stderr)) == []
    # Nothing but what the catalog says of this torch on any device of NVIDIA.
    (note,) = diagnose_environment(python, host, devices).findings
    assert (note.code, note.bad) == ("known-wrong-numbers", False)


def test_healthy_environment_gets_no_accusation(python: Path, devices: Devices) -> None:
    found = diagnose_environment(python, Host("linux-64", "6.8"), devices)
    assert [finding for finding in found.findings if finding.bad] == []
