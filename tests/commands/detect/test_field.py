"""Machines of the field, faulty and innocent: what `detect` and the doctor say of each."""

from __future__ import annotations

import dataclasses
import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.commands.detect import detect
from provision.core.findings import Level
from provision.doctor.diagnosis import diagnose_machine
from provision.host import macos, nvidia
from provision.host.model import NvidiaCard, User
from provision.host.probe import read_host
from provision.spec.reader import read_hardware
from tests.commands.detect import conftest
from tests.published import is_published

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.host.model import Host

FIELD = tomllib.loads((conftest.HERE / "field.toml").read_text(encoding="utf-8"))
MACS = json.loads((conftest.HERE / "macs.json").read_text(encoding="utf-8"))
TARGETS = read_hardware(Path(__file__).parents[3] / "envs")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@pytest.fixture(params=FIELD["machine"])
def machine(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = FIELD["machine"][request.param]
    return found


@pytest.fixture
def host(
    machine: dict[str, Any],
    tmp_path: Path,
    devices: Devices,
    monkeypatch: pytest.MonkeyPatch,
) -> Host:
    """Return the host that a machine's tree makes; other systems have no tree."""
    monkeypatch.setattr(
        "provision.host.probe.this_platform", lambda: _platform(machine)
    )
    monkeypatch.setattr(macos, "this_platform", lambda: _platform(machine))
    if name := machine.get("mac"):
        return macos.read_macos(MACS[name], devices, machine.get("variables", {}))
    for number, gpu in enumerate(machine["gpus"]):
        at = f"pci0000:00/0000:00:01.{number}/0000:0{number + 1}:00.0"
        known = {"at": at, "class": "0x030000", **FIELD["gpu"][gpu["is"]], **gpu}
        conftest.make_gpu(tmp_path, known, nodes=not machine.get("no_nodes"))
    _system(tmp_path, machine)
    if answer := machine.get("nvml"):
        card = NvidiaCard("0000:01:00.0", memory_bytes=24 * 2**30, **answer)
        monkeypatch.setattr(nvidia, "_cards", lambda *_: [card])
    user = User(
        "someone", conftest.STRANGER, () if machine.get("closed") else (os.getgid(),)
    )
    variables = machine.get("variables", {})
    return read_host(devices, root=tmp_path, environ=variables, user=user)


def _platform(machine: dict[str, Any]) -> str:
    return str(machine.get("platform", "linux-64"))


def _system(root: Path, machine: dict[str, Any]) -> None:
    write = conftest.write
    write(root / "proc/sys/kernel/osrelease", machine.get("kernel", "6.8.0-48-generic"))
    write(root / "etc/group", f"render:x:{os.getgid()}:\n")
    links = dict(machine.get("links", {}))
    if version := machine.get("nvidia"):
        for name in ("libcuda.so", "libnvidia-ml.so"):
            write(root / LIBRARIES / f"{name}.{version}", "")
            links.setdefault(f"{LIBRARIES}/{name}.1", f"{name}.{version}")
    if build := machine.get("neo"):
        write(root / LIBRARIES / f"libze_intel_gpu.so.1.6.{build}", "")
        write(root / LIBRARIES / "libze_loader.so.1.17.44", "")
    if not machine.get("bare"):
        libc = machine.get("libc", "2.39")
        write(
            root / "usr/bin/ldd",
            f"#! /bin/bash\n    echo 'ldd (Ubuntu GLIBC {libc}-0) {libc}'\n",
        )
        write(
            root / LIBRARIES / f"libstdc++.so.{machine.get('libstdcxx', '6.0.33')}", ""
        )
        write(
            root / "proc/meminfo",
            "MemTotal: 32000000 kB\nMemAvailable:   28000000 kB\n",
        )
    for path, text in machine.get("files", {}).items():
        write(root / path, text)
    for path, target in links.items():
        (root / path).symlink_to(target)


def test_a_machine_is_judged_alike_by_detect_and_doctor(
    machine: dict[str, Any], host: Host, devices: Devices
) -> None:
    judge_detect(machine, host)
    judge_doctor(machine, host, devices)


def judge_detect(machine: dict[str, Any], host: Host) -> None:
    found = detect(TARGETS, host)
    assert is_published("detect", found)
    verdicts = {fit.target: fit.verdict.value for fit in found.fits}
    words = [*found.advice]
    for fit in found.fits:
        words += [*fit.reasons, fit.remedy]
    said = "\n".join(words)
    if "chosen" in machine:
        assert (found.chosen or "") == machine["chosen"], said
    for target, verdict in machine.get("verdicts", {}).items():
        assert verdicts[target] == verdict, said
    for word in machine.get("says", ()):
        assert word in said, said
    for word in machine.get("never", ()):
        assert word not in said, said


def judge_doctor(machine: dict[str, Any], host: Host, devices: Devices) -> None:
    diagnosis = diagnose_machine(host, devices)
    assert is_published("doctor", diagnosis)
    found = diagnosis.findings
    said = "\n".join(str(dataclasses.asdict(finding)) for finding in found)
    problems, notes = [], []
    for finding in found:
        if finding.bad:
            problems.append(finding.code)
        elif finding.level is Level.NOTE and finding.code != "driver-unknown":
            notes.append(finding.code)
    assert problems == machine.get("doctor", []), said
    assert notes == machine.get("notes", []), said
    for word in machine.get("doctor_says", ()):
        assert word in said, said
