"""Which rank this process is, as torchrun, srun or mpirun tells it, and whom it meets when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PORT = "29511"
# By launcher: rank, ranks, rank on the node.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


class NoVerdict(Exception):  # noqa: N818
    """Nothing was learnt about a rank; the text says why."""


@dataclass(frozen=True)
class Place:
    """Which of the ranks this process is, and where rank 0 listens."""

    rank: int
    size: int
    local: int
    address: str
    port: int
    serves: bool  # whether this process keeps the store; torchrun has one of its own


def place_of(environ: Mapping[str, str]) -> Place:
    """Return the place that a launcher has given to this process."""
    for names in LAUNCHERS:
        if names[0] in environ and names[1] in environ:
            rank, size, local = (int(environ.get(name, "0")) for name in names)
            break
    else:
        raise NoVerdict("no variables of torchrun, srun or mpirun: start it with one")
    address = environ.get("MASTER_ADDR") or first_node(environ)
    if not address:
        raise NoVerdict("MASTER_ADDR is not set: set it to the node of rank 0")
    port = int(environ.get("MASTER_PORT", PORT))
    serves = rank == 0 and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return Place(rank, size, local, address, port, serves)


def first_node(environ: Mapping[str, str]) -> str:
    """Return the first node of a step of Slurm: ``gpu001`` of ``gpu[001-004,7],login``."""
    nodes = environ.get("SLURM_STEP_NODELIST", environ.get("SLURM_JOB_NODELIST", ""))
    found = re.match(r"([^\[,]+)(?:\[(\w+))?", nodes)
    return f"{found[1]}{found[2] or ''}" if found else ""


def partners(rank: int, size: int) -> Iterator[int]:
    """Yield with whom a rank exchanges in each round of a tournament, in which nobody waits long."""
    odd = size % 2
    rounds = size - 1 + odd  # with an odd number, one rank rests in each
    for turn in range(rounds):
        other = (turn - rank) % rounds
        if not odd:
            if rank == rounds:
                other = turn * (rounds + 1) // 2 % rounds
            elif other == rank:
                other = rounds
        if other != rank:
            yield other
