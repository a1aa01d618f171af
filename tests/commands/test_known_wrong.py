"""A machine whose driver is known to compute wrong numbers is told so by detect, and before a build."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.catalog import devices as device_catalog
from provision.catalog.devices import read_devices
from provision.catalog.known_wrong import read_known_wrong
from provision.cli.main import main
from provision.commands import build as building
from provision.commands import machine, status
from provision.commands.detect import FitVerdict, detect_machine
from provision.commands.extend_known_wrong import extend_known_wrong
from provision.commands.known_wrong import known_wrong_of
from provision.core.errors import SpecError, ToolError
from provision.core.limits import read_parsed
from provision.core.project import Project
from provision.host.known_wrong import known_wrong
from provision.host.model import DeviceFile, Driver, Gpu, Host, Runtimes
from provision.spec.reader import load_target
from provision.ui.console import Console
from provision.ui.results import show_overview

if TYPE_CHECKING:
    from collections.abc import Callable

    from provision.catalog.devices import Devices

ROOT = Path(__file__).parents[2]
PROJECT = Project(ROOT)
H200 = Gpu(
    "nvidia",
    "2335",
    "NVIDIA H200",
    "0000:41:00.0",
    family="hopper",
    supported=True,
    integrated=False,
    compute_capability="9.0",
    driver=Driver("nvidia", "580.159.04"),
)
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
    (beside,) = [line for line in found.advice if line.startswith("vllm-xpu-linux has")]
    assert beside == (
        "vllm-xpu-linux has torch 2.14.0+xpu, which is known to be wrong on this machine: softmax-bands"
    )
    (vllm,) = [fit for fit in found.fits if fit.target == "vllm-xpu-linux"]
    assert vllm.verdict is FitVerdict.FITS
    assert "no public file has the hashes" in "; ".join(vllm.reasons)


def test_detect_names_the_older_torch_that_is_wrong_on_an_nvidia_gpu(b70: Host) -> None:
    found = detect_machine(PROJECT, dataclasses.replace(b70, gpus=(H200,)))
    assert found.chosen == "cuda-linux"
    told = [line for line in found.advice if "wrong" in line]
    (line,) = told
    assert line.startswith("cuda12-linux has torch 2.10.0, which is known to be wrong")
    assert line.endswith(": avg-pool-channels-last")


def test_detect_leaves_a_target_out_whose_wheels_need_a_newer_glibc(
    b70: Host,
) -> None:
    system = dataclasses.replace(b70.system, libc="glibc 2.31")
    host = dataclasses.replace(b70, system=system)
    fits = {fit.target: fit for fit in detect_machine(PROJECT, host).fits}
    assert fits["arc-linux"].verdict is FitVerdict.FITS
    assert fits["vllm-xpu-linux"].verdict is FitVerdict.NO
    assert "glibc 2.31, the wheels need glibc 2.34" in fits["vllm-xpu-linux"].reasons[0]


@pytest.mark.parametrize(
    ("target", "words"), [("arc-linux", WORDS), ("cuda12-linux", "avg_pool2d")]
)
def test_a_build_says_it_before_it_fetches_and_reads_the_machine_once(
    target: str,
    words: str,
    b70: Host,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = []

    def read(_devices: Devices, **_more: object) -> Host:
        readings.append(1)
        return dataclasses.replace(b70, gpus=(*b70.gpus, H200))

    def stop(*_arguments: object) -> None:
        raise ToolError("the build begins here", remedy="none")

    monkeypatch.setattr(machine, "read_host", read)
    monkeypatch.setattr(building, "build", stop)
    main(["build", target, "--offline", "--no-smoke", "-C", str(ROOT)])
    told = capsys.readouterr().err
    assert words in told
    assert told.index(words) < told.index("error:")
    assert len(readings) == 1


@pytest.mark.parametrize(
    ("target", "torch", "words"),
    [
        ("arc-linux", "2.13.0+xpu", "lose elements"),
        ("arc-linux", "2.12.1+xpu", ""),
        ("arc-windows", "2.14.1+xpu", "asserts or is lost"),
        ("max-linux", "2.13.0+xpu", "topk"),
        ("cuda-linux", "2.13.0", "on any NVIDIA GPU with any driver: the gradient"),
        ("cuda-windows", "2.13.0+cu130", "avg_pool2d"),
        ("cuda-linux", "2.14.0", ""),
        ("cpu-linux", "2.13.0+cpu", ""),
        ("mps-macos", "2.13.0", ""),
        ("vllm-xpu-linux", "2.14.0+xpu", "2**k + 1 columns"),
    ],
)
def test_lock_warns_of_a_torch_whose_numbers_are_wrong_on_machines_of_its_target(
    target: str, torch: str, words: str
) -> None:
    lines = known_wrong_of(load_target(PROJECT.specs, target), torch, PROJECT.catalog)
    system = "masks-torch-2-14-windows" if "linux" in target else "[masks-torch-2-13]"
    assert not [line for line in lines if system in line]  # a row of the other system
    assert words in "\n".join(lines)
    assert bool(lines) == bool(words)


def test_without_torch_or_its_gpu_nothing_is_said(b70: Host) -> None:
    devices = read_devices(PROJECT.catalog)
    assert known_wrong("", "xpu", b70, devices) == []
    other = Host("linux-64", "6.17")
    assert known_wrong("2.14.0+xpu", "xpu", other, devices) == []
    assert known_wrong("2.13.0", "cuda", b70, devices) == []


def test_detect_reads_the_catalog_of_devices_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = []

    def read(path: Path, parse: Callable[[str], Any]) -> Any:  # noqa: ANN401 - as read_parsed
        names.append(path.name)
        return read_parsed(path, parse)

    monkeypatch.setattr(device_catalog, "read_parsed", read)
    detect_machine(PROJECT, Host("linux-64", "6.17"))
    assert names.count("devices.toml") == 1


def own_project(folder: Path, *, torch: str) -> Project:
    """Return a project whose arc-linux has another torch, and no lock."""
    catalog = folder / "envs" / "catalog"
    shutil.copytree(PROJECT.catalog, catalog)
    spec = f'extends = "arc-linux"\n[pip]\nrequirements = ["torch=={torch}"]\n'
    (folder / "envs" / "own.toml").write_text(spec, encoding="utf-8")
    return Project(folder)


def test_detect_tells_which_other_targets_are_wrong_here(
    b70: Host, tmp_path: Path
) -> None:
    project = own_project(tmp_path, torch="2.13.0+xpu")
    (tmp_path / "envs" / "arc-linux.toml").write_text(
        'extends = "arc-linux"\n', encoding="utf-8"
    )
    told = "\n".join(detect_machine(project, b70).advice)
    assert (
        "own has torch 2.13.0+xpu, which is known to be wrong on this machine" in told
    )
    assert "topk-4096" in told


def test_targets_marks_the_rows_of_a_target_and_of_this_machine(
    b70: Host,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = own_project(tmp_path, torch="2.13.0+xpu")
    main(["targets", "-C", str(tmp_path)])
    assert "known to be wrong" not in capsys.readouterr().out  # it has no lock yet
    (row,) = status.target_statuses(project).rows
    locked = status.ProjectStatus((dataclasses.replace(row, lock="fresh"),))
    show_overview(locked, Console("provision"))
    told = capsys.readouterr().out
    assert "own: its torch is known to be wrong: masks-torch-2-13, " in told
    assert "on this machine" not in told  # it is not built here
    monkeypatch.setattr(status, "this_host", lambda _project: b70)
    monkeypatch.setattr(status, "this_platform", lambda: "linux-64")
    (row,) = status.target_statuses(project).rows
    assert row.known_wrong_here == ()
    target = load_target(project.specs, "own")
    here = status._known_wrong_here(project, target, "2.13.0+xpu")
    assert "half-products-b70" in here
    assert "masks-torch-2-13" not in here  # this driver is newer than the fix


def test_a_torch_without_a_row_needs_no_look_at_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which wakes a GPU, and takes seconds."""

    def read(_project: Project) -> Host:
        raise AssertionError

    monkeypatch.setattr(status, "this_host", read)
    monkeypatch.setattr(status, "this_platform", lambda: "linux-64")
    target = load_target(PROJECT.specs, "cuda-linux")
    assert status._known_wrong_here(PROJECT, target, "2.15.0") == ()
    with pytest.raises(AssertionError):
        status._known_wrong_here(PROJECT, target, "2.13.0")


ROW = """[own-row]
title = "torch.sort is wrong"
families = ["dg2"]
torch = ">=2.14,<2.15"
symptom = "sort gives wrong places"
right = "torch 2.12.1"
check = "known-wrong.order"
sources = ["own/tracker#1"]
"""


def test_update_adds_the_rows_of_a_file_and_replaces_changed_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a project without a list of its own begins with the shipped one."""
    project = own_project(tmp_path, torch="2.14.0+xpu")
    (project.catalog / "known-wrong.toml").unlink()
    file = tmp_path / "rows.toml"
    file.write_text(ROW, encoding="utf-8")
    assert main(["update", "--known-wrong", str(file), "-C", str(tmp_path)]) == 0
    assert "known-wrong: 1 added, 0 completed\n  own-row" in capsys.readouterr().out
    rows = read_known_wrong(project.catalog)
    assert rows.keys() == {*read_known_wrong(PROJECT.catalog), "own-row"}
    target = load_target(project.specs, "own")
    assert "[own-row]" in "\n".join(known_wrong_of(target, "2.14.0", project.catalog))
    file.write_text(ROW.replace("2.12.1", "2.11.0"), encoding="utf-8")
    assert extend_known_wrong(project, file).completed == ["own-row"]
    assert read_known_wrong(project.catalog)["own-row"].right == "torch 2.11.0"
    assert extend_known_wrong(project, file).completed == []


def test_update_adds_a_row_of_one_family_of_nvidia(tmp_path: Path) -> None:
    project = own_project(tmp_path, torch="2.12.1+xpu")
    file = tmp_path / "rows.toml"
    row = ROW.replace('families = ["dg2"]', 'vendor = "nvidia"\nfamilies = ["hopper"]')
    file.write_text(row, encoding="utf-8")
    assert extend_known_wrong(project, file).added == ["own-row"]
    target = load_target(PROJECT.specs, "cuda-linux")
    (line,) = known_wrong_of(target, "2.14.0", project.catalog)
    assert line.startswith("torch 2.14.0 on hopper with any driver: sort gives wrong")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('sources = ["own/tracker#1"]', "", "own-row: sources: is missing"),
        ('sources = ["own/tracker#1"]', "sources = []", "own-row: sources: is empty"),
        ('"dg2"', '"dg3"', "dg3"),
        ('"dg2"', '"hopper"', "hopper"),
        ('families = ["dg2"]', 'vendor = "nvidia"', "own-row: families: is missing"),
        ("families", 'vendor = "nvidia"\nfamilies', "dg2"),
        (">=2.14,<2.15", "about 2.14", "own-row: torch"),
        ("[own-row]", '["../row"]', "is no name of a row"),
        ("[own-row]", "[own-row", "column 9: [own-row"),
    ],
)
def test_update_refuses_a_row_that_is_not_sound(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    project = own_project(tmp_path, torch="2.14.0+xpu")
    file = tmp_path / "rows.toml"
    file.write_text(ROW.replace(old, new), encoding="utf-8")
    before = (project.catalog / "known-wrong.toml").read_bytes()
    with pytest.raises(SpecError) as caught:
        extend_known_wrong(project, file)
    assert words in (caught.value.evidence or "")
    assert "nothing was added" in (caught.value.remedy or "")
    assert (project.catalog / "known-wrong.toml").read_bytes() == before
