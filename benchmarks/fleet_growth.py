"""How a fleet grows: ``python -m benchmarks.fleet_growth TOOLS``, as root.

TOOLS is a folder with Ansible's programs. Measured: 1 to 16 hosts (tests/fleet) under Ansible,
processor time of the controller and bytes on the wire, which do not depend on the load of the
machine as seconds do. Computed from the committed
locks: what a host is sent. Simulated: how many hosts a bad driver reaches before a roll-out stops,
and how long pushing takes, up to 100,000 hosts. The figures go to ``fleet_growth.json``.
"""

from __future__ import annotations

import heapq
import json
import random
import re
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fleet.fleets import open_fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fleet.fleets import Fleet

ROOT = Path(__file__).parents[1]
SIZES = (1, 4, 16)
NODES = (100, 1_000, 10_000, 100_000)
TARGETS = ("cpu-linux", "cuda-linux", "max-linux")
WAVES = (
    1,
    10,
    0.01,
    0.1,
    1.0,
)  # hosts, or shares of the fleet: the default of the playbook
SLOTS = 16  # pushes at once of a controller or mirror: provision_pushes
LINK = 1.25e9  # bytes per second of its network card, 10 Gbit/s
HOST = 125e6  # of a host's, 1 Gbit/s
ROUNDS = 25


def main() -> None:
    """Measure, compute, simulate, write."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"h{n:02}" for n in range(SIZES[-1])]
        with open_fleet(Path(folder), Path(sys.argv[1]).absolute(), (), names) as fleet:
            measured = [measure(fleet, names, size) for size in SIZES]
    sent = {target: lock_bytes(target) for target in TARGETS}
    figures = {
        "measured": measured,
        "bytes": sent,
        "pushed": [
            push(nodes, mirrors, sent["cuda-linux"]["bundle"])
            for nodes in NODES
            for mirrors in sorted({1, nodes // 500, nodes // 50} - {0})
        ],
        "stopped": [
            rollout(nodes, share, stop_at)
            for nodes in NODES
            for share in (0.01, 0.1)
            for stop_at in (1, 3)
        ],
    }
    text = json.dumps(figures, indent=1)
    Path(__file__).with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
    print(text)


def measure(fleet: Fleet, names: Sequence[str], size: int) -> dict[str, Any]:
    """Provision as many hosts as are fresh of the first ones, then run again on all of these."""
    fresh = [
        n
        for n in names[:size]
        if not (fleet.lab.hosts[n].root / "opt/provision").exists()
    ]
    found: dict[str, Any] = {"hosts": size, "fresh": len(fresh)}
    for case, chosen in (("first", fresh), ("again", names[:size])):
        before = received(fleet, chosen)
        cpu, began = children(), time.monotonic()
        played = fleet.play("site", ",".join(chosen))
        if played.code:
            raise SystemExit(str(played.failed()))
        found[case] = {
            "seconds": round(time.monotonic() - began, 1),
            "controller_cpu_per_host": round((children() - cpu) / len(chosen), 2),
            "bytes_per_host": (received(fleet, chosen) - before) // len(chosen),
            "changed": max(played.stats(name)["changed"] for name in chosen),
        }
    return found


def children() -> float:
    """Return the processor time of ended child processes; a host's are children of its own init."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def received(fleet: Fleet, names: Sequence[str]) -> int:
    """Return how many bytes hosts were sent, as their cables count them."""
    total = 0
    for name in names:
        wire = fleet.lab.hosts[name].wire
        told = json.loads(fleet.lab.call("ip", "-s", "-j", "link", "show", wire).stdout)
        total += told[0]["stats64"]["tx"]["bytes"]
    return total


def lock_bytes(target: str) -> dict[str, int]:
    """Return what a host is sent: for the first time, and when torch or another package changes."""
    text = (ROOT / "lockfiles" / target / "requirements.txt").read_text(
        encoding="utf-8"
    )
    names = re.findall(r"^([\w.-]+)==", text, re.MULTILINE)
    sizes = [int(size) for size in re.findall(r"# size: (\d+)", text)]
    torch = sizes[names.index("torch")]
    return {
        "bundle": sum(sizes),
        "torch": torch,
        "median_package": int(statistics.median(sizes)),
    }


def push(nodes: int, mirrors: int, size: int) -> dict[str, Any]:
    """Simulate pushing: each mirror serves some hosts at once, and they share its network card.

    A twentieth of the hosts takes four times as long, as hosts do.
    """
    source = random.Random(nodes * mirrors)  # noqa: S311 - the same figures each time
    alone = size / min(HOST, LINK / SLOTS)
    free = [0.0] * (mirrors * SLOTS)
    for _ in range(nodes):
        spent = alone * source.uniform(1.0, 1.3) * (4 if source.random() < 0.05 else 1)
        heapq.heapreplace(free, free[0] + spent)
    # The mirrors are fed by the controller in the same way.
    feed = 0 if mirrors == 1 else -(-mirrors // SLOTS) * size / (LINK / SLOTS)
    return {
        "nodes": nodes,
        "mirrors": mirrors,
        "hours": round((max(free) + feed) / 3600, 2),
        "terabytes": round(nodes * size / 1e12, 2),
    }


def rollout(nodes: int, share: float, stop_at: int) -> dict[str, Any]:
    """Simulate roll-outs of a driver that breaks a share of the hosts: how many does it reach?"""
    source, broken = random.Random(nodes), []  # noqa: S311 - as above
    for _ in range(ROUNDS):
        done = bad = 0
        for wave in WAVES:
            size = min(
                wave if isinstance(wave, int) else int(nodes * wave), nodes - done
            )
            bad += sum(source.random() < share for _ in range(size))
            done += size
            if bad >= stop_at:
                break
        broken.append((bad, done))
    return {
        "nodes": nodes,
        "share": share,
        "stop_at": stop_at,
        "broken": statistics.median(b for b, _ in broken),
        "changed": statistics.median(d for _, d in broken),
    }


if __name__ == "__main__":
    main()
