"""Slurm on the lab's hosts: slurmctld on the login node, slurmd on some hosts, munge on all."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.commands.detect.conftest import write
from tests.fleet.machines import CLONE, NETWORK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.fleet.machines import Lab, Machine

CONFIG = """
ClusterName=lab
SlurmctldHost=login({network}.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir=/var/spool/slurmd
SlurmdPidFile=/run/slurmd.pid
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
DefMemPerNode=1
SlurmdTimeout=30
MessageTimeout=3
ReturnToService=1
MpiDefault=none
"""
# Of the example, what a test cannot wait for, or starts when it wants to.
OVERRIDES = {"HealthCheckInterval": "3600", "HealthCheckNodeState": "IDLE"}
SETTINGS = "PROVISION_TARGET=poolxpu\n"
SCHEDULER = "defer,sched_interval=1,bf_interval=1"


def example() -> list[str]:
    """The lines of the example, whose scripts are in the folder that all hosts share."""
    text = (CLONE / "fleet/slurm/slurm.conf.example").read_text(encoding="utf-8")
    lines: list[str] = []
    for line in text.replace("/shared/provision/fleet", "/mnt").splitlines():
        name, found, value = line.partition("=")
        if not found or line.startswith("#"):
            continue
        if name == "SchedulerParameters":
            value = f"{SCHEDULER},{value}"
        lines.append(f"{name}={OVERRIDES.get(name, value)}")
    return lines


@dataclass
class Cluster:
    """A running Slurm."""

    lab: Lab
    folder: Path
    nodes: Sequence[Machine]

    def call(self, *words: str | Path) -> str:
        """Run one of Slurm's programs on the login node; return what it prints."""
        return self.lab.call("timeout", "30", *words, env=self._environ).stdout.strip()

    def fails(self, *words: str | Path) -> str:
        """Run one that must fail; return its errors."""
        done = self.lab.call("timeout", "30", *words, env=self._environ, check=False)
        assert done.returncode, done.stdout
        return done.stderr

    @property
    def _environ(self) -> dict[str, str]:
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": "/usr/sbin:/usr/bin",
        }

    def node(self, name: str) -> tuple[str, str]:
        """State and reason of a node."""
        state, _, reason = self.call(
            "sinfo", "-h", "-N", "-n", name, "-o", "%T|%E"
        ).partition("|")
        return state, reason

    def job(self, number: str) -> str:
        """State and reason of a job."""
        return self.call("squeue", "--noheader", f"--jobs={number}", "--format=%T %r")

    def wait(self, name: str, state: str) -> tuple[str, str]:
        """Wait for the state of a node; return the last one and its reason."""
        self.until(lambda: self.node(name)[0] == state, fatal=False)
        return self.node(name)

    def until(self, done: Callable[[], bool], *, fatal: bool = True) -> None:
        end = time.monotonic() + 240  # a busy machine took more than 45 s
        while not (good := done()) and time.monotonic() < end:
            time.sleep(0.2)
        assert good or not fatal, self.call("sinfo", "--list-reasons")

    def every(self, seconds: int) -> None:
        """Let slurmctld ask for a health check so often; 0: never."""
        path = self.folder / "slurm.conf"
        setting = re.compile(r"(?<=HealthCheckInterval=)\d+")
        path.write_text(setting.sub(str(seconds), path.read_text()), encoding="utf-8")
        self.call("scontrol", "reconfigure")

    def check_twice(self, node: Machine) -> None:
        """Wait for two health checks, so that one has begun and ended after this call."""
        verdict = (
            node.root / f"var/lib/provision/verdicts/{node.name}.poolxpu.gate.json"
        )
        for _ in range(2):
            before = verdict.stat().st_mtime_ns
            self.until(lambda: verdict.stat().st_mtime_ns != before)  # noqa: B023 - called at once


def _join(node: Machine, munged: Sequence[str]) -> None:
    """Start the daemons of a node."""
    # slurmd 22.05 loads a cgroup plugin whether it is used or not; this one needs no mount.
    plugin = "CgroupPlugin=cgroup/v1\nCgroupAutomount=yes\n"
    write(node.root / "etc/slurm/cgroup.conf", plugin)
    write(node.root / "etc/munge/munge.key", "k" * 128, mode=0o400)
    for path in ("var/lib/munge", "var/log/munge", "var/spool/slurmd"):
        (node.root / path).mkdir(parents=True, exist_ok=True)
    node.run(*munged)
    node.run("slurmd", "-N", node.name)


def start(lab: Lab, nodes: Sequence[Machine], settings: str = SETTINGS) -> Cluster:
    """Start the daemons on provisioned hosts, and wait until every node is idle.

    The settings are those of `/etc/default/provision` of each host.
    """
    folder = lab.folder / "slurm"
    (folder / "state").mkdir(parents=True)
    shutil.copytree(CLONE / "fleet/slurm", lab.shared / "slurm")
    lines = CONFIG.format(network=NETWORK, folder=folder).splitlines()
    lines += example()
    lines += [
        f"NodeName={n.name} NodeAddr={n.address} CPUs=1 State=UNKNOWN" for n in nodes
    ]
    names = ",".join(n.name for n in nodes)
    lines += [
        f"PartitionName=gpu Nodes={names} Default=YES MaxTime=INFINITE State=UP",
        "",
    ]
    write(folder / "slurm.conf", "\n".join(lines))
    write(folder / "munge.key", "k" * 128, mode=0o400)
    munged = ["munged", "--force", "--num-threads=2"]
    lab.call(
        *munged,
        f"--key-file={folder}/munge.key",
        f"--log-file={folder}/munged.log",
        "--pid-file=/run/munge/pid",
        "--seed-file=/run/munge/seed",
    )
    made = Cluster(lab, folder, nodes)
    made.call("slurmctld")
    for node in nodes:
        write(node.root / "etc/slurm/slurm.conf", "\n".join(lines))
        write(node.root / "etc/default/provision", settings)
        _join(node, munged)
    for node in nodes:
        found = made.wait(node.name, "idle")
        assert found[0] == "idle", (found, node.read("/var/log/slurmd.log")[-2000:])
    return made
