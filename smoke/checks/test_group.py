"""Between nodes: the processes of a job sum numbers and exchange them in pairs, right and in time.

`provision gate --group` in each process of torchrun, srun or mpirun runs this check.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping

import torch
from torch import distributed

from smoke.device import devices
from smoke.device.group import LIMIT, Group
from smoke.engine.check import Numbers, check
from smoke.engine.expect import Expect
from smoke.engine.finding import fail
from smoke.reference.group import (
    Seen,
    best_speeds,
    is_wrong,
    partners,
    slow_ranks,
    wrong_ranks,
)

LARGE = 2**22  # numbers of four bytes: what a layer's gradients take
REPEATS = 3  # the first waits for partners that come later


def in_group(expect: Expect) -> str:
    """Apply to a process of a job."""
    return "" if expect.in_job else "only in a group of processes"


@check(
    "group.exchange",
    stands_for="a job hangs, is slow or learns nothing because of one node of many",
    when=in_group,
    full=True,
)
def test_exchange(expect: Expect, device: torch.device, numbers: Numbers) -> None:
    """All processes of a job sum and exchange numbers, right and as fast as most of the group."""
    numbers.step("wait for the other processes")
    group = Group(expect.group or {})  # it is given, see `in_group`
    nodes = group.join(device)
    try:
        numbers.record("processes", group.size, "count")
        seen = look(group, nodes, device, numbers)
        if slow_ranks(seen):  # a neighbour's burst may be over
            seen = look(group, nodes, device, numbers)
    finally:
        group.leave()
    best = best_speeds(seen)
    if group.rank in best:
        numbers.record("exchange", best[group.rank], "GB/s")
        numbers.sample("exchange of the group", list(best.values()), "GB/s")
    judge(group.rank, seen)


def look(
    group: Group, nodes: Mapping[int, str], device: torch.device, numbers: Numbers
) -> dict[int, Seen]:
    """Sum and exchange once; return what each process saw, by rank."""
    numbers.step("all-reduce of the group")
    with group.step("sum numbers"):
        sums, seconds = sum_at_size(group.size, group.rank, device)
    rates = [4e-9 * LARGE / one for one in seconds]
    numbers.sample("all-reduce", rates, "GB/s")
    is_sum_wrong = any(group.told_by_all("sums", sums).values())
    wrong, speeds = [], {}
    for pairs in partners(group.size):
        partner = pairs[group.rank]
        if partner == group.rank:
            if is_sum_wrong:
                group_of([partner])
            continue
        numbers.step(f"exchange with rank {partner} on {nodes[partner]}")
        with group.step(f"exchange numbers with rank {partner}"):
            is_right, speeds[partner] = exchange(group.rank, partner, device)
            # Who changes the sum? Both ask, whatever came to them.
            if is_sum_wrong and sum_of_two(group.rank, partner, device):
                is_right = False
        if not is_right:
            wrong.append(partner)
    numbers.step("compare what all processes saw")
    told = group.told_by_all("seen", [sums, wrong, list(speeds.items())])
    seen = {}
    for rank, (sums, wrong, measured) in told.items():
        seen[rank] = Seen(nodes[rank], sums, wrong, dict(measured))
    return seen


def pattern(rank: int, device: torch.device) -> torch.Tensor:
    """Return whole numbers that no other rank has, in float32."""
    numbers = torch.arange(LARGE, device=device) % 1021
    return (numbers + rank).float()


def sum_of_two(rank: int, partner: int, device: torch.device) -> int:
    """Return how many numbers of a sum with one partner only are wrong."""
    two = sorted([rank, partner])
    wrong, _ = sum_at_size(2, two.index(rank), device, group_of(two))
    return wrong


def group_of(ranks: list[int]) -> distributed.ProcessGroup:
    """Return a group of some processes, which no other has to know of.

    Its name in torch counts the groups before it: a process that pauses makes one, too, or its next
    partner would wait under another name, for half an hour without a limit.
    """
    limit = dt.timedelta(seconds=LIMIT)
    return distributed.new_group(ranks, limit, use_local_synchronization=True)


def sum_at_size(
    size: int,
    rank: int,
    device: torch.device,
    group: distributed.ProcessGroup | None = None,
    *,
    period: int = 7,
    repeats: int = REPEATS,
) -> tuple[int, list[float]]:
    """Return how many numbers of a sum of all in a group are wrong, and the seconds of each try.

    The numbers repeat in a period: 7 keeps sums of 2,000 ranks exact, 1,021 those of 180.
    """
    ramp = torch.arange(LARGE, device=device).remainder(period).float()
    right = ramp * (size * (size + 1) // 2)
    seconds = []
    for _ in range(repeats):
        full = ramp * (rank + 1)
        devices.synchronize(device)
        began = time.perf_counter()
        distributed.all_reduce(full, group=group)
        devices.synchronize(device)
        seconds.append(time.perf_counter() - began)
    return int((full != right).sum()), seconds


def exchange(rank: int, partner: int, device: torch.device) -> tuple[bool, float]:
    """Return whether a partner's numbers came right, and the best speed in GB/s, of both directions."""
    sent = pattern(rank, device)
    best = float("inf")
    for _ in range(REPEATS):
        received = torch.zeros_like(sent)
        devices.synchronize(device)
        began = time.perf_counter()
        operations = [
            distributed.P2POp(distributed.isend, sent, partner),
            distributed.P2POp(distributed.irecv, received, partner),
        ]
        for work in distributed.batch_isend_irecv(operations):
            work.wait()
        devices.synchronize(device)
        best = min(best, time.perf_counter() - began)
    is_right = torch.equal(received, pattern(partner, device))
    return is_right, 2e-9 * sent.nbytes / best


def judge(rank: int, seen: Mapping[int, Seen]) -> None:
    """Fail where a process of this node is at fault; warn where that of another node is."""
    lines = []
    for member, facts in seen.items():
        if is_wrong(facts):
            lines.append(_line(member, facts))
    if lines:
        culprits = wrong_ranks(seen)
        if not culprits:
            fail(
                "network-failure",
                "the processes get wrong numbers from each other, and none stands out",
                lines,
                cause="a node or the network changes numbers; two nodes cannot show which",
                remedy="run it with one node more, and with other pairs of nodes",
            )
        nodes = {seen[culprit].node for culprit in culprits}
        level = "" if seen[rank].node in nodes else "warning"
        fail("wrong-numbers", f"{_names(culprits, seen)}: wrong numbers", lines, level)
    if slow := slow_ranks(seen):
        for member, speed in best_speeds(seen).items():
            lines.append(f"{_names([member], seen)}: {speed:.3g} GB/s")
        fail("slow", f"{_names(slow, seen)}: slower than the group", lines, "warning")


def _names(ranks: list[int], seen: Mapping[int, Seen]) -> str:
    return ", ".join(f"rank {rank} on {seen[rank].node}" for rank in ranks)


def _line(rank: int, facts: Seen) -> str:
    """Return what came wrong to a process."""
    return (
        f"rank {rank} on {facts.node}: {facts.sums} wrong numbers in the sum of all, "
        f"wrong numbers with ranks {sorted(facts.wrong)}"
    )
