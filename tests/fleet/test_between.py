"""Four nodes that are network namespaces on a bridge: the real exchanges of gloo between them."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.commands.detect.conftest import write
from tests.fleet.machines import CLONE, require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fleet, pytest.mark.slow]
PROGRAM = CLONE / "smoke/between.py"
NODES = 4
NETWORK = "10.79.0"
# A rank that sends other numbers than those that are its own.
SPOILED = f"""
import sys
sys.path.append({str(CLONE)!r})
from smoke import between
from smoke.checks import between_nodes as nodes
right, own = nodes.pattern, int(__import__("os").environ["RANK"])
def pattern(rank, device):
    numbers = right(rank, device)
    if rank == own:
        numbers[77] += 1
    return numbers
nodes.pattern = pattern
sys.exit(between.main(sys.argv[1:]))
"""


def ip(words: str, *, check: bool = True) -> None:
    argv = ["ip", *words.split()]
    subprocess.run(argv, check=check)


@pytest.fixture(scope="module")
def network() -> Iterator[list[str]]:
    """The namespaces of the nodes, one with each its own cable to a bridge."""
    require("ip", "tc")
    names = [f"between{number}" for number in range(NODES)]
    ip("netns add betweensw")
    try:
        ip("-n betweensw link add sw type bridge")
        ip("-n betweensw link set sw up")
        for number, name in enumerate(names):
            ip(f"netns add {name}")
            cable = f"link add v{number} type veth peer name eth0 netns {name}"
            ip(f"-n betweensw {cable}")
            ip(f"-n betweensw link set v{number} master sw up")
            ip(f"-n {name} addr add {NETWORK}.{number + 1}/24 dev eth0")
            for device in ("lo", "eth0"):
                ip(f"-n {name} link set {device} up")
        yield names
    finally:
        for name in (*names, "betweensw"):
            ip(f"netns delete {name}", check=False)


def launch(
    python: Path, nodes: list[str], *words: str, program: dict[int, Path] | None = None
) -> list[tuple[int, str]]:
    """Start one rank on each node, as a launcher does; return exit code and output of each."""
    ranks = []
    for rank, node in enumerate(nodes):
        environ = {
            "PATH": os.environ["PATH"],
            "GLOO_SOCKET_IFNAME": "eth0",
            "MASTER_ADDR": f"{NETWORK}.1",
            "RANK": str(rank),
            "WORLD_SIZE": str(NODES),
            "SLURMD_NODENAME": node,
        }
        started = (program or {}).get(rank, PROGRAM)
        argv = ["ip", "netns", "exec", node, python, "-I", started, "cpu", *words]
        ranks.append(start(argv, environ))
    return [(each.wait(timeout=300), output(each)) for each in ranks]


def start(argv: list[str | Path], environ: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with process.stdout as stream:
        return stream.read()


def test_torchrun_starts_it_on_four_nodes(python: Path, network: list[str]) -> None:
    torchrun = python.with_name("torchrun")
    ranks = []
    for rank, node in enumerate(network):
        words = ["--nnodes=4", "--nproc-per-node=1", f"--node-rank={rank}"]
        words += [f"--master-addr={NETWORK}.1", "--master-port=29400"]
        environ = {"PATH": os.environ["PATH"], "GLOO_SOCKET_IFNAME": "eth0"}
        argv = ["ip", "netns", "exec", node, torchrun, *words, PROGRAM, "cpu"]
        ranks.append(start(argv, environ))
    ended = [(each.wait(timeout=300), output(each)) for each in ranks]
    assert [code for code, _ in ended] == [0] * NODES, ended
    assert "provision: keep between 4 ranks, all-reduce" in ended[0][1]


def test_a_slow_node_is_named_and_removed_only_where_that_is_asked_for(
    python: Path, network: list[str]
) -> None:
    within = f"netns exec {network[2]} tc qdisc"
    ip(f"{within} add dev eth0 root tbf rate 200mbit burst 256kbit latency 400ms")
    try:
        ended = launch(python, network, "--fail-if-slower")
    finally:
        ip(f"{within} del dev eth0 root")
    assert [code for code, _ in ended] == [1] * NODES, ended
    (line,) = (ln for ln in ended[0][1].splitlines() if ln.startswith("slow"))
    assert "between2 (rank 2)" in line


def test_a_rank_that_sends_wrong_numbers_is_named(
    python: Path, network: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "spoiled.py", SPOILED)
    spoiled = {1: tmp_path / "spoiled.py"}
    ended = launch(python, network, program=spoiled)
    assert [code for code, _ in ended] == [1] * NODES, ended
    (line,) = (ln for ln in ended[0][1].splitlines() if ln.startswith("wrong"))
    assert "between1 (rank 1) exchanges wrong numbers with 3 ranks" in line


def test_a_rank_that_does_not_come_is_named(python: Path, network: list[str]) -> None:
    ended = launch(python, network[:3], "--timeout", "30")
    assert [code for code, _ in ended] == [2] * 3, ended
    assert "provision: none between: rank 3 did not come" in ended[0][1]
