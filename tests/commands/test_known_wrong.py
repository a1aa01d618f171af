"""A machine whose driver is known to compute wrong numbers is told so by detect, and before a build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.catalog.devices import read_devices
from provision.cli.main import main
from provision.commands import build as building
from provision.commands import machine
from provision.commands.detect import detect_machine
from provision.commands.known_wrong import known_wrong_here, known_wrong_of
from provision.core.errors import ToolError
from provision.core.project import Project
from provision.host.model import DeviceFile, Driver, Gpu, Host, Runtimes
from provision.spec.reader import load_target

if TYPE_CHECKING:
    from provision.catalog.devices import Devices

ROOT = Path(__file__).parents[2]
PROJECT = Project(ROOT)
WORDS = "products of float16 are not a number"


@pytest.fixture
def b70() -> Host:
    """A machine with an Arc Pro B70 and the drivers of the report."""
    known = read_devices(PROJECT.catalog).find("intel", "e223")
    assert known is not None
    gpu = Gpu(
        "intel",
        "e223",
        "Arc Pro B70",
        "0000:03:00.0",
        family=known.family,
        supported=True,
        integrated=False,
        driver=Driver("xe", ""),
        nodes=(DeviceFile("/dev/dri/renderD128", "render", True, True),),
    )
    runtimes = Runtimes(level_zero="1.28", compute_runtime="26.35.39758.10")
    return Host("linux-64", "6.17", gpus=(gpu,), runtimes=runtimes)


def test_detect_cites_what_is_known_to_be_wrong(b70: Host) -> None:
    found = detect_machine(PROJECT, b70)
    assert found.chosen == "arc-linux"
    (line,) = [line for line in found.advice if WORDS in line]
    assert "Arc Pro B70 with torch 2.12.1+xpu and driver 26.35.39758.10" in line
    assert "intel/compute-runtime#1000" in line


def test_a_build_says_it_before_it_fetches_and_reads_the_machine_once(
    b70: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    def read(_devices: Devices) -> Host:
        readings.append(1)
        return b70

    def stop(*_arguments: object) -> None:
        raise ToolError("the build begins here", remedy="none")

    monkeypatch.setattr(machine, "read_host", read)
    monkeypatch.setattr(building, "build", stop)
    main(["build", "arc-linux", "--offline", "--no-smoke", "-C", str(ROOT)])
    told = capsys.readouterr().err
    assert WORDS in told
    assert told.index(WORDS) < told.index("error:")
    assert len(readings) == 1


@pytest.mark.parametrize(
    ("target", "torch", "words"),
    [
        ("arc-linux", "2.13.0+xpu", "lose elements"),
        ("arc-linux", "2.12.1+xpu", ""),
        ("arc-windows", "2.14.1+xpu", "asserts or is lost"),
        ("max-linux", "2.13.0+xpu", "topk"),
        ("cuda-linux", "2.13.0", ""),
    ],
)
def test_lock_warns_of_a_torch_whose_numbers_are_wrong_on_machines_of_its_target(
    target: str, torch: str, words: str
) -> None:
    lines = known_wrong_of(load_target(PROJECT.specs, target), torch, PROJECT.catalog)
    assert words in "\n".join(lines)
    assert bool(lines) == bool(words)


def test_without_torch_or_an_intel_gpu_nothing_is_said(b70: Host) -> None:
    assert known_wrong_here(PROJECT, b70, "") == []
    other = Host("linux-64", "6.17")
    assert known_wrong_here(PROJECT, other, "2.14.0+xpu") == []
