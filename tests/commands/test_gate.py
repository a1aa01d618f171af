"""The gate: exit codes and words of its verdict, with a suite in miniature and with the real one."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from provision.cli import main
from provision.commands.gate import known_wrong_checks, of_machine
from provision.core.project import Project
from provision.host.model import Driver, Gpu, Host, Runtimes
from provision.report.fleet import report_fleet
from provision.report.history import history
from provision.spec.reader import load_target
from tests.cli.test_contract import SCHEMA, suite_of
from tests.small import FAILING_SUITE, SUITE, TARGET

if TYPE_CHECKING:
    from tests.lab import Lab

CLONE = Path(__file__).parents[2]
KEEP, REMOVE, NONE = 0, 1, 2
NUMBER = '"error": {"value": 1e-7, "unit": "1"}'
SPEED = '"memory": {"value": %s, "unit": "GB/s"}'


def gate(lab: Lab, *words: str) -> int:
    root = str(lab.project.root)
    return main.main(["gate", "--project", root, "--node", "n1", *words])


def stored(lab: Lab) -> dict[str, Any]:
    path = lab.project.root / ".envs/verdicts" / f"n1.{TARGET}.gate.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.validate(found, schema)
    return found


def suite_with(numbers: str) -> str:
    """Return the suite whose check measures other numbers."""
    return SUITE.replace(NUMBER, numbers)


@pytest.mark.machine
def test_a_fit_node_is_kept_and_the_run_proves_nothing(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    before = history(ready.project, TARGET)
    capsys.readouterr()
    assert gate(ready, TARGET) == KEEP
    out = capsys.readouterr().out
    assert out.startswith("keep: tiny on n1, in ")
    assert len(out.splitlines()) <= 12
    verdict = stored(ready)
    assert verdict["suite"] == "gate"
    assert verdict["verdict"] == "keep"
    assert history(ready.project, TARGET) == before


@pytest.mark.machine
@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("op-fails", REMOVE),
        ("link-below-its-best", KEEP),
        ("driver-not-mounted", NONE),
        ("device-busy", NONE),
    ],
)
def test_a_failed_check_decides_by_its_code(
    ready: Lab, capsys: pytest.CaptureFixture[str], code: str, verdict: int
) -> None:
    suite = FAILING_SUITE.replace('"op-fails"', f'"{code}"')
    suite_of(ready, suite)
    capsys.readouterr()
    assert gate(ready, TARGET) == verdict
    out = capsys.readouterr().out
    assert "it fails" in out
    if verdict != KEEP:
        assert f"code    {code}" in out
    assert len(out.splitlines()) <= 12


@pytest.mark.machine
def test_its_document_is_the_verdict(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_of(ready, FAILING_SUITE)
    capsys.readouterr()
    assert gate(ready, TARGET, "--json") == REMOVE
    document = json.loads(capsys.readouterr().out)
    assert document["verb"] == "gate"
    assert document["ok"] is False
    assert document["result"] == stored(ready)


@pytest.mark.machine
def test_a_line_for_slurm_is_one_of_any_verb(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert gate(ready, TARGET, "--contract", "slurm") == KEEP
    assert capsys.readouterr().out == "provision: keep tiny gate: 1 of 1 checks\n"


@pytest.mark.machine
def test_bandwidth_stands_beside_its_own_history(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in (100, 102, 20):
        suite_of(ready, suite_with(SPEED % value))
        capsys.readouterr()
        assert gate(ready, TARGET) == KEEP  # slower is not wrong
    assert "memory 20 GB/s (usual 101)" in capsys.readouterr().out
    (speed,) = stored(ready)["speeds"]
    assert speed["value"] == 20
    assert speed["earlier"] == [100, 102]
    assert speed["usual"] == 101
    other = suite_with(SPEED % 50).replace('"toy"', '"another card"')
    suite_of(ready, other)
    assert gate(ready, TARGET) == KEEP
    (speed,) = stored(ready)["speeds"]
    assert speed["earlier"] == []


@pytest.mark.machine
def test_no_verdict_tells_since_when_and_forgets_no_speed(ready: Lab) -> None:
    suite_of(ready, suite_with(SPEED % 100))
    assert gate(ready, TARGET) == KEEP
    assert stored(ready)["since"] is None
    suite_of(ready, "raise SystemExit(3)")
    assert gate(ready, TARGET) == NONE
    first = stored(ready)
    assert first["since"] == first["time"]
    time.sleep(1.1)
    assert gate(ready, TARGET) == NONE
    again = stored(ready)
    assert again["since"] == first["since"]
    assert again["time"] > first["time"]
    suite_of(ready, suite_with(SPEED % 90))
    assert gate(ready, TARGET) == KEEP
    back = stored(ready)
    assert back["since"] is None
    (speed,) = back["speeds"]
    assert speed["earlier"] == [100]


@pytest.mark.machine
def test_a_speed_that_one_run_did_not_measure_keeps_its_history(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    memory_speed = SPEED % 100
    link_speed = SPEED.replace("memory", "link") % 10
    both = f"{memory_speed}, {link_speed}"
    for numbers in (both, SPEED % 102):
        suite_of(ready, suite_with(numbers))
        capsys.readouterr()
        assert gate(ready, TARGET) == KEEP
    assert "link" not in capsys.readouterr().out
    memory, link = stored(ready)["speeds"]
    assert memory["value"] == 102
    assert memory["earlier"] == [100]
    assert memory["measured"] is True
    assert link["value"] == 10
    assert link["earlier"] == []
    assert link["measured"] is False
    suite_of(ready, suite_with(both))
    assert gate(ready, TARGET) == KEEP
    memory, link = stored(ready)["speeds"]
    assert memory["earlier"] == [100, 102]
    assert memory["measured"] is True
    assert link["earlier"] == [10]
    assert link["measured"] is True


def with_devices(lab: Lab, number: int, numbers: str = NUMBER) -> None:
    devices = [{"name": "H100", "index": index} for index in range(number)]
    end = '"checks": [check]'
    suite = suite_with(numbers)
    suite_of(lab, suite.replace(f"{end}}}", f'{end}, "devices": {devices}}}'))


@pytest.mark.machine
def test_a_node_that_lost_a_device_is_removed_until_it_is_back(
    ready: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    with_devices(ready, 8)
    assert gate(ready, TARGET) == KEEP
    suite_of(ready, "raise SystemExit(3)")
    assert gate(ready, TARGET) == NONE  # which forgets no device
    for _ in range(2):
        with_devices(ready, 7)
        capsys.readouterr()
        assert gate(ready, TARGET) == REMOVE
        assert "the number of devices fell from 8 to 7" in capsys.readouterr().out
        found = stored(ready)
        assert found["code"] == "fewer-devices"
        assert found["devices"] == 7
        (regression,) = found["regressions"]
        assert regression["code"] == "fewer-devices"
    with_devices(ready, 8)
    assert gate(ready, TARGET) == KEEP
    # One device is checked, as with --device, and there are eight.
    with_devices(ready, 1, '"count": {"value": 8, "unit": "count"}')
    assert gate(ready, TARGET) == KEEP
    assert stored(ready)["devices"] == 1
    with_devices(ready, 9)
    assert gate(ready, TARGET) == KEEP
    assert stored(ready)["most_devices"] == 9


@pytest.mark.machine
def test_devices_that_a_variable_hides_are_not_lost(
    ready: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ready.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text.replace('"cpu"', '"cuda"', 1))
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    with_devices(ready, 8)
    assert gate(ready, TARGET) == KEEP
    with_devices(ready, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert gate(ready, TARGET) == KEEP
    assert stored(ready)["most_devices"] == 8
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gate(ready, TARGET) == REMOVE


@pytest.mark.machine
def test_no_verdict_replaces_no_removal(ready: Lab) -> None:
    suite_of(ready, FAILING_SUITE)
    assert gate(ready, TARGET) == REMOVE
    removal = stored(ready)
    suite_of(ready, "raise SystemExit(3)")
    assert gate(ready, TARGET) == NONE
    assert stored(ready) == removal
    long_ago = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    folder = ready.project.root / ".envs" / "verdicts"
    report = report_fleet(folder, ["n1"], long_ago)
    assert report.counts == {"remove": 1}
    suite_of(ready, SUITE)
    assert gate(ready, TARGET) == KEEP
    assert stored(ready)["verdict"] == "keep"


@pytest.mark.machine
def test_a_target_may_be_left_out_where_one_is_built(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(lab) == NONE
    assert "none is built here" in capsys.readouterr().err
    lab.build()
    assert gate(lab) == KEEP
    spec = lab.project.specs / f"{TARGET}.toml"
    shutil.copy(spec, spec.with_name("other.toml"))
    current = lab.project.environments("other") / "current"
    current.mkdir(parents=True)
    assert gate(lab) == NONE
    assert "several are built: other, tiny" in capsys.readouterr().err


def arc(**changes: Any) -> Host:  # noqa: ANN401 - any field of a GPU
    driver = Driver("xe")
    facts = {"family": "bmg", "supported": True, "integrated": False}
    facts.update(changes)
    gpu = Gpu("intel", "e20b", "Arc B580", "0000:03:00.0", driver=driver, **facts)
    runtimes = Runtimes("1.20.2", "25.18.33578")
    return Host("linux-64", "6.14.0", gpus=(gpu,), runtimes=runtimes)


def test_damaged_firmware_removes_a_node_although_another_gpu_works() -> None:
    targets = Project(CLONE).specs
    arc_target = load_target(targets, "arc-linux")
    damaged = arc(survivability=True)
    assert list(of_machine(arc_target, arc())) == []
    (finding,) = of_machine(arc_target, damaged)
    assert finding.code == "gpu-hardware-fault"
    assert finding.level == "error"
    assert "0000:03:00.0" in finding.evidence[0]
    cpu_target = load_target(targets, "cpu-linux")
    assert list(of_machine(cpu_target, damaged)) == []


def test_what_is_known_wrong_with_this_torch_on_this_gpu_is_looked_for() -> None:
    project = Project(CLONE)
    catalog = project.catalog
    target = load_target(project.specs, "arc-linux")
    host = arc()
    checks = known_wrong_checks(target, "2.13.0", host, catalog)
    assert "known-wrong.masks" in checks
    of_another_torch = known_wrong_checks(target, "2.12.1", host, catalog)
    assert of_another_torch != checks
    cpu = load_target(project.specs, "cpu-linux")
    assert known_wrong_checks(cpu, "2.13.0", host, catalog) == []


@pytest.mark.machine
@pytest.mark.skipif(sys.platform == "win32", reason="it tells no memory of a process")
def test_the_real_checks_take_seconds_and_less_than_a_gigabyte(
    python: Path, tmp_path: Path
) -> None:
    shutil.copytree(CLONE / "envs", tmp_path / "envs")  # a spec is no link to outside
    for name in ("lockfiles", "smoke"):
        (tmp_path / name).symlink_to(CLONE / name)
    environments = python.parents[2]
    folder = tmp_path / ".envs"
    folder.mkdir()
    link = folder / environments.name
    link.symlink_to(environments)
    words = ["gate", "--project", str(tmp_path), "--node", "n1"]
    argv = [sys.executable, "-m", "provision", *words]
    for _ in range(2):  # the first one may compile what it imports
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=CLONE, text=True)
        with child.stdout as stream:
            out = stream.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == KEEP, out
        # Of processor time: the wall clock also counts what other programs take.
        seconds = used.ru_utime + used.ru_stime
        if seconds < 10.0:
            break
    assert seconds < 10.0
    assert used.ru_maxrss < 2**20  # KiB, of its largest process
    assert len(out.splitlines()) <= 12
    (path,) = (folder / "verdicts").iterdir()
    found = json.loads(path.read_text(encoding="utf-8"))
    checked = {"identity.import", "device.ready", "device.matmul", "health.bandwidth"}
    assert found["numbers"].keys() == checked
    assert found["speeds"]
