"""Slurm by the contract: only a verdict drains a node, and only a drain of ours is taken back."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.commands.detect.conftest import write
from tests.fleet import slurm

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.fleet.fleets import Fleet, Played
    from tests.fleet.machines import Machine
    from tests.fleet.slurm import Cluster

pytestmark = pytest.mark.fleet
REASON = "provision: remove wrong-numbers poolxpu gate: device.matmul@1: card 1 computes wrong numbers"


def run(node: Machine, script: str, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run a script as slurmd does, after a health check that may be running."""
    node.run("flock", "/var/lib/provision/lock", "true")
    name = f"SLURMD_NODENAME={node.name}"
    return node.run("timeout", "120", "env", name, *settings, f"/mnt/slurm/{script}")


@pytest.fixture(scope="module")
def cluster(fleet: Fleet, first: Played) -> Iterator[Cluster]:
    """A controller and three nodes, which run no health check by themselves yet."""
    nodes = [fleet.lab.hosts[name] for name in ("good", "driver", "late")]
    for node in (
        nodes
    ):  # a rollout of before may have broken one, and its first check would say so
        environments = node.root / "opt/provision/toolkit/.envs"
        shutil.rmtree(environments / "poolxpu" / "reports", ignore_errors=True)
    return slurm.start(fleet.lab, nodes)


@pytest.mark.case
def test_a_prolog_refuses_a_job_where_a_new_driver_broke_the_node(
    cluster: Cluster,
) -> None:
    good = cluster.lab.hosts["good"]
    assert cluster.call("srun", "--nodelist=good", "hostname") == "good"
    assert cluster.wait("good", "idle")[0] == "idle"  # the epilog has ended
    good.drive(34303)  # what nobody has checked yet
    (good.card(1) / "sick").touch()
    assert "Prolog failure" in cluster.fails("srun", "--nodelist=good", "hostname")
    cluster.call("scancel", "--user=root")
    assert cluster.wait("good", "drained") == ("drained", REASON)
    (good.card(1) / "sick").unlink()


def test_a_job_of_sbatch_that_a_prolog_refused_runs_once_the_node_is_fit(
    cluster: Cluster,
) -> None:
    cluster.every(3600)
    node = cluster.lab.hosts["driver"]
    (node.card(1) / "sick").touch()
    words = ["sbatch", "--parsable", "--nodelist=driver", "--output=/dev/null"]
    job = cluster.call(*words, "--wrap=touch /var/tmp/ran")
    assert cluster.wait("driver", "drained") == ("drained", REASON)
    cluster.until(lambda: "PENDING" in cluster.job(job))
    assert "held" not in cluster.job(job)
    (node.card(1) / "sick").unlink()
    cluster.every(2)
    cluster.until((node.root / "var/tmp/ran").exists)


def test_a_node_is_drained_with_the_code_and_resumed_when_it_is_fit(
    cluster: Cluster,
) -> None:
    cluster.every(2)
    late = cluster.lab.hosts["late"]
    (late.card(1) / "sick").touch()
    assert cluster.wait("late", "drained") == ("drained", REASON)
    (late.card(1) / "sick").unlink()
    assert cluster.wait("late", "idle")[0] == "idle"
    assert cluster.wait("good", "idle")[0] == "idle"  # which the prolog has drained


def test_an_epilog_drains_a_node_that_a_job_has_left_unfit(cluster: Cluster) -> None:
    cluster.every(3600)
    late = cluster.lab.hosts["late"]
    bad = f"/{late.card(1).relative_to(late.root)}/sick"
    cluster.call("srun", "--nodelist=late", "touch", bad)
    assert cluster.wait("late", "drained") == ("drained", REASON)
    (late.card(1) / "sick").unlink()


def test_what_an_administrator_has_drained_stays_so(cluster: Cluster) -> None:
    cluster.call("scontrol", "update", "NodeName=late", "State=DRAIN", "Reason=a fan")
    cluster.every(1)
    late = cluster.lab.hosts["late"]
    cluster.check_twice(late)
    assert cluster.node("late") == ("drained", "a fan")
    (late.card(1) / "sick").touch()  # it is unfit, and fit again
    cluster.check_twice(late)
    assert cluster.node("late") == ("drained", "a fan")
    (late.card(1) / "sick").unlink()
    cluster.check_twice(late)
    assert cluster.node("late") == ("drained", "a fan")
    cluster.call("scontrol", "update", "NodeName=late", "State=RESUME")


def test_all_quick_checks_run_once_and_the_gate_each_time(cluster: Cluster) -> None:
    cluster.every(3600)
    node = cluster.lab.hosts["driver"]
    home = node.root / "opt/provision/toolkit/.envs/poolxpu/reports"
    run(node, "health")
    reports, verdicts = len([*home.iterdir()]), node.root / "var/lib/provision/verdicts"
    gate = verdicts / "driver.poolxpu.gate.json"
    before = gate.stat().st_mtime_ns
    told = run(node, "health").stdout.splitlines()
    assert [line.split()[3] for line in told] == ["gate:", "quick:"]
    assert gate.stat().st_mtime_ns > before
    assert len([*home.iterdir()]) == reports
    run(node, "health", "PROVISION_PROVE_EVERY=1s")  # they are older
    assert len([*home.iterdir()]) == reports + 1


def test_a_node_of_a_mixed_cluster_without_a_target_is_named_and_left_alone(
    cluster: Cluster,
) -> None:
    cluster.every(3600)
    node = cluster.lab.hosts["driver"]
    other = node.root / "opt/provision/toolkit/.envs/poolcpu/current"
    other.mkdir(parents=True)
    try:
        for script in ("health", "prolog", "epilog"):
            write(node.root / "etc/default/provision", "")
            told = run(node, script)
            assert "several are built: poolcpu, poolxpu" in told.stderr
            assert "no verdict: see its error; is PROVISION_TARGET set?" in told.stderr
    finally:
        shutil.rmtree(other.parent)
        write(node.root / "etc/default/provision", slurm.SETTINGS)
    assert cluster.node("driver") == ("idle", "none")


@pytest.mark.parametrize(
    ("trouble", "code"),
    [("offline", "network-failure"), ("hang", "time-limit"), ("moved", "usage")],
)
def test_no_verdict_drains_nobody(cluster: Cluster, trouble: str, code: str) -> None:
    cluster.every(3600)
    node = cluster.lab.hosts["driver"]
    environments = node.root / "opt/provision/toolkit/.envs"
    if trouble == "moved":
        environments.rename(environments.with_name("moved"))
    else:
        (node.root / "etc" / trouble).touch()
    try:
        told = run(node, "health", "PROVISION_GATE_LIMIT=4s")
    finally:
        if trouble == "moved":
            environments.with_name("moved").rename(environments)
        else:
            (node.root / "etc" / trouble).unlink()
    assert told.stdout.startswith(f"provision: none {code} poolxpu")
    assert f"none {code} poolxpu" in told.stderr
    assert cluster.node("driver") == ("idle", "none")


def test_a_node_that_cannot_reach_the_controller_is_not_drained_later(
    cluster: Cluster,
) -> None:
    node = cluster.lab.hosts["driver"]
    node.link("down")
    (node.card(1) / "sick").touch()
    told = run(node, "health")  # scontrol fails
    (node.card(1) / "sick").unlink()
    node.link("up")
    assert told.stdout.strip() == REASON
    cluster.every(2)
    cluster.check_twice(node)
    assert cluster.wait("driver", "idle") == ("idle", "none")


def test_a_partition_is_proven_node_by_node(cluster: Cluster) -> None:
    folder = cluster.lab.shared / "round"
    cluster.call("/mnt/slurm/prove", "gpu", "/mnt/round")
    # All memory of the node; a cluster's default is often less than the checks need.
    queued = ("squeue", "--noheader", "--name=provision", "--format=%m")
    assert cluster.call(*queued).split() == ["0"] * len(cluster.nodes)
    names = [f"{node.name}.poolxpu.full.json" for node in cluster.nodes]
    cluster.until(lambda: all((folder / name).exists() for name in names))
    assert {json.loads((folder / name).read_text())["verdict"] for name in names} == {
        "keep"
    }
