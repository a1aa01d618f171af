"""``between.py cpu|cuda|xpu``, once per rank under torchrun, srun or mpirun: the network between nodes.

Each pair of ranks exchanges tensors, then all add up theirs. The result names the rank whose part is
wrong, missing, or slow against the group. Every rank ends with the same code: 0 all right, 1 a wrong
number, with ``--fail-if-slower`` also a slow rank, 2 no verdict: a rank did not come, or a rank failed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# At the end of sys.path: a module of the environment with the same name must win, as for its users.
if str(Path(__file__).resolve().parents[1]) not in sys.path:
    sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

from smoke.engine.launchers import NoVerdict, place_of  # noqa: E402 - the path comes first

SLOW = 0.5  # of the group's median, below which a rank is slow
FEWEST = 3  # ranks, of which one can be slow against the others


def judge(results: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return what is wrong and what is slow, by the results of all ranks in order."""
    hosts = [f"{each['host']} (rank {rank})" for rank, each in enumerate(results)]
    wrong: list[str] = []
    bad = _bad_pairs(results)
    guilty = [r for r in range(len(hosts)) if 2 * len(bad.get(r, ())) > len(hosts) - 1]
    for rank in guilty:
        wrong.append(
            f"{hosts[rank]} exchanges wrong numbers with {len(bad[rank])} ranks"
        )
    for rank, others in bad.items():
        for other in others:
            if rank < other and not {rank, other} & {*guilty}:
                wrong.append(f"wrong numbers between {hosts[rank]} and {hosts[other]}")
    for rank, each in enumerate(results):
        if each["wrong_sums"] and not wrong:
            wrong.append(f"{hosts[rank]} has {each['wrong_sums']} wrong sums")
    return wrong, _slow(results, hosts)


def _bad_pairs(results: Sequence[Mapping[str, Any]]) -> dict[int, set[int]]:
    """Return, of each rank, those with which it exchanged wrong numbers."""
    bad: dict[int, set[int]] = {}
    for rank, each in enumerate(results):
        for other, pair in each["pairs"].items():
            if pair["wrong"]:
                bad.setdefault(rank, set()).add(int(other))
                bad.setdefault(int(other), set()).add(rank)
    return bad


def _slow(results: Sequence[Mapping[str, Any]], hosts: Sequence[str]) -> list[str]:
    """Name the ranks that are slow with each of their partners."""
    if len(hosts) < FEWEST:
        return []
    # The best one: a slow rank is slow with all others, which are fast among themselves.
    best = [max(pair["rate"] for pair in each["pairs"].values()) for each in results]
    usual = statistics.median(best)
    return [
        f"{hosts[rank]}: {rate:.3g} GB/s, {usual:.3g} is usual in this group"
        for rank, rate in enumerate(best)
        if rate < SLOW * usual
    ]


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser("between.py", description=__doc__)
    parser.add_argument("accelerator", choices=("cpu", "cuda", "xpu"))
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds for a rank to come"
    )
    parser.add_argument(
        "--fail-if-slower", action="store_true", help="end with 1 for a slow rank"
    )
    parser.add_argument("--json", action="store_true", help="print all results")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run as one rank; return the exit code, the same on each."""
    options = parse(argv)
    try:
        place = place_of(os.environ)
        # Not before: the places of a wrong start need no torch.
        from smoke.checks.between_nodes import Group

        group = Group(place, options.accelerator, options.timeout)
        results = group.results()
    except NoVerdict as reason:
        print(f"provision: none between: {reason}", file=sys.stderr)  # noqa: T201
        return 2
    wrong, slow = judge(results)
    failed = bool(wrong or (slow and options.fail_if_slower))
    if place.rank == 0:
        show(results, wrong, slow, failed=failed, as_json=options.json)
    group.leave()
    return int(failed)


def show(
    results: Sequence[Mapping[str, Any]],
    wrong: Sequence[str],
    slow: Sequence[str],
    *,
    failed: bool,
    as_json: bool,
) -> None:
    """Print the result: one line for each rank that is named, or all as JSON."""
    verdict = "remove" if failed else "keep"
    if as_json:
        parts = {"verdict": verdict, "wrong": wrong, "slow": slow, "ranks": results}
        print(json.dumps({"schema": 1} | parts))  # noqa: T201
        return
    sums = statistics.median(each["sum_rate"] for each in results)
    told = f"{len(results)} ranks, all-reduce {sums:.3g} GB/s"
    print(f"provision: {verdict} between {told}")  # noqa: T201
    for kind, lines in (("wrong", wrong), ("slow", slow)):
        for line in lines:
            print(f"{kind:<6}{line}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
