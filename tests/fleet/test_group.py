"""Four nodes, each a network namespace on a bridge, whose processes exchange numbers by Gloo."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from smoke.engine.journal import Journal
from tests.fleet.machines import CLONE, require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.fleet
NODES, NETWORK = 4, "10.78.0"
# The process of a node, which has a name of its own.
PROCESS = 'hostname "$1"; shift; exec "$@"'


def ip(words: str, *, check: bool = True) -> None:
    subprocess.run(f"ip {words}".split(), check=check)


@pytest.fixture
def nodes() -> Iterator[list[str]]:
    """The names of the nodes, and of their network namespaces."""
    require("ip", "tc", "unshare")
    names, switch = [f"group{number}" for number in range(NODES)], "groupswitch"
    try:
        ip(f"netns add {switch}")
        ip(f"-n {switch} link add bridge type bridge")
        ip(f"-n {switch} link set bridge up")
        for number, name in enumerate(names):
            ip(f"netns add {name}")
            ip(f"-n {switch} link add {name} type veth peer name eth0 netns {name}")
            ip(f"-n {switch} link set {name} master bridge up")
            ip(f"-n {name} addr add {NETWORK}.{number + 1}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
            ip(f"-n {name} link set lo up")
        yield names
    finally:
        for name in (*names, switch):
            ip(f"netns delete {name}", check=False)


@pytest.fixture
def expectation(python: Path, tmp_path: Path) -> dict[str, Any]:
    """What the suite expects of the environment."""
    path = tmp_path / "expect.json"
    harness = CLONE / "tests/smoke/harness.py"
    subprocess.run([python, "-I", harness, "--describe", path], check=True)
    expect: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return expect


def start(
    nodes: list[str], python: Path, expectation: dict[str, Any], folder: Path
) -> list[subprocess.Popen[bytes]]:
    """Start the check in one process on each node."""
    place = {"size": str(NODES), "address": f"{NETWORK}.1", "port": "29500"}
    started = []
    for rank, node in enumerate(nodes):
        own = {"group": place | {"rank": str(rank), "store": "own"}}
        expect = folder / f"{node}.expect.json"
        expect.write_text(json.dumps(expectation | own), encoding="utf-8")
        enter = ["ip", "netns", "exec", node, "unshare", "--uts", "sh", "-c", PROCESS]
        suite = [python, "-I", CLONE / "smoke/run.py", expect, folder / node]
        words = [*enter, "sh", node, *suite, "--full", "--only", "group"]
        words += ["--journal", folder / f"{node}.journal"]
        environ = {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "eth0"}
        started.append(subprocess.Popen(words, env=environ))
    return started


def checks(nodes: list[str], folder: Path) -> list[dict[str, Any]]:
    """Return what the process of each node says of the check."""
    reports = [json.loads((folder / n).read_text(encoding="utf-8")) for n in nodes]
    return [
        next(one for one in report["checks"] if one["id"] == "group.exchange")
        for report in reports
    ]


def limit(node: str, rate: str) -> None:
    """Let a node get no more than a rate through its cable."""
    words = f"tc -n groupswitch qdisc add dev {node} root tbf rate {rate}"
    subprocess.run(f"{words} burst 1mb latency 50ms".split(), check=True)


@pytest.mark.parametrize("cable", ["sound", "slow"])
def test_the_node_with_a_slow_cable_is_named(
    nodes: list[str],
    python: Path,
    expectation: dict[str, Any],
    tmp_path: Path,
    cable: str,
) -> None:
    if cable == "slow":
        limit("group2", "200mbit")
    for process in start(nodes, python, expectation, tmp_path):
        process.wait(timeout=300)
    for check in checks(nodes, tmp_path):
        if cable == "sound":
            assert check["outcome"] in {"passed", "warned"}, check
        else:
            assert check["outcome"] == "warned", check
            assert check["finding"]["code"] == "slow"
            symptom = "rank 2 on group2: slower than the group"
            assert check["finding"]["symptom"] == symptom


def test_the_others_end_and_name_the_node_of_rank_0_that_loses_power(
    nodes: list[str], python: Path, expectation: dict[str, Any], tmp_path: Path
) -> None:
    for node in nodes:
        limit(node, "20mbit")  # a sum takes seconds, in which the power fails
    first, *others = start(nodes, python, expectation, tmp_path)
    try:
        journal = Journal(tmp_path / "group0.journal")
        until = time.monotonic() + 240
        while not any(
            "all-reduce" in event.get("step", "") for event in journal.events()
        ):
            assert time.monotonic() < until, "the processes did not meet"
            time.sleep(0.1)
        ip("-n groupswitch link set group0 down")
        for process in others:
            process.wait(timeout=300)
    finally:
        first.kill()
        first.wait()
    for check in checks(nodes[1:], tmp_path):
        assert check["finding"]["code"] == "network-failure", check
        assert "rank 0 on group0 is silent" in check["finding"]["symptom"]
