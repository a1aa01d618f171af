"""A process of a job, as torchrun, srun or mpirun has started it: by the variables that they set."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provision.core.errors import UsageError

if TYPE_CHECKING:
    from provision.commands.suite import SmokeRequest

# Rank, size, and rank on the node. torchrun can run below srun, and mpirun in a batch script of Slurm.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # Intel MPI, MPICH
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
# Without the interface that a cluster needs, the check would judge another network than its jobs use.
_NETWORK = ("NCCL_", "CCL_", "GLOO_", "FI_", "UCX_")
_PORT = 29500  # torch's own
# Of node[01-04,7]-ib,node9: up to a comma outside brackets, and the first number of each bracket.
_FIRST_HOSTS = re.compile(r"(?:[^,\[\]\s]|\[\w[^\[\]\s]*\])+")
_NUMBERS = re.compile(r"\[(\w+)[^\]]*\]")


@dataclass(frozen=True, slots=True)
class Launched:
    """One process of a job."""

    facts: dict[str, str]  # what the suite expects as `group`
    local: int  # its number on its node
    network: dict[str, str]  # settings of the collectives


def in_group(request: "SmokeRequest", variables: Mapping[str, str]) -> "SmokeRequest":
    """Return the request for a process of a job, which checks one device of its own."""
    launched = read_launched(variables)
    device = request.device
    if not device:
        is_cpu = request.target.accelerator == "cpu"
        device = "0" if is_cpu else str(launched.local)
    if device == "all":
        raise UsageError(
            "--group checks one device in each process", remedy="drop --device all"
        )
    return replace(request, suite="group", device=device, group=launched)


def read_launched(variables: Mapping[str, str]) -> Launched:
    """Return what the launcher says of this process; UsageError where there is none."""
    names = _names(variables)
    rank, size, local = (variables.get(name) or "0" for name in names)
    _require_place(names, int(rank), int(size), local)
    store = "own"
    if variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # It outlives an attempt, and so do the keys in it.
        store = f"launcher/{variables.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    facts = {
        "rank": rank,
        "size": size,
        "address": _address(variables),
        "port": _port(variables),
        "store": store,
    }
    network = {n: v for n, v in variables.items() if n.startswith(_NETWORK)}
    return Launched(facts, int(local), network)


def _names(variables: Mapping[str, str]) -> tuple[str, str, str]:
    for names in _LAUNCHERS:
        if all(variables.get(name, "").isdecimal() for name in names[:2]):
            return names
    raise UsageError(
        "no group: start it under torchrun, srun or mpirun",
        cause="they set the rank of each process; none is set for this one",
        remedy="run it in each process of a job, as in "
        "`srun --ntasks-per-node=1 provision gate TARGET --group`",
    )


def _require_place(
    names: tuple[str, str, str], rank: int, size: int, local: str
) -> None:
    """Refuse a process that has nobody to compare with, or no place among the others."""
    if size < 2:
        raise UsageError(
            f"no group: {names[1]}={size}: one process has nothing to compare with",
            remedy="start two processes or more, as in "
            "`srun --nodes 2 --ntasks-per-node=1 provision gate TARGET --group`",
        )
    if rank >= size:
        raise UsageError(
            f"--group: {names[0]}={rank} is not below {names[1]}={size}",
            remedy="let one launcher set both variables",
        )
    if not local.isdecimal():
        raise UsageError(
            f"--group: {names[2]}={local}: not a number",
            remedy="set the number of the process on its node, from 0",
        )


def _address(variables: Mapping[str, str]) -> str:
    """Return the host of rank 0."""
    address = variables.get("MASTER_ADDR", "").strip()
    if address:
        return address
    nodes = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_NODELIST", "")
    first = _FIRST_HOSTS.match(nodes)
    if first and nodes[first.end() : first.end() + 1] in {"", ","}:
        return _NUMBERS.sub(r"\1", first.group())
    raise UsageError(
        "--group: the host of rank 0 is not known",
        cause="torchrun sets MASTER_ADDR and srun a list of nodes; mpirun sets neither",
        remedy="set MASTER_ADDR to the name of that host, as in `mpirun -x MASTER_ADDR=node1 …`",
    )


def _port(variables: Mapping[str, str]) -> str:
    """Return the port of rank 0: of two jobs of Slurm on one node each has its own."""
    port = variables.get("MASTER_PORT", "").strip()
    if port:
        if port.isdecimal() and 0 < int(port) < 2**16:
            return port
        raise UsageError(
            f"MASTER_PORT={port}: not a port", remedy="set a number below 65536"
        )
    job = variables.get("SLURM_JOB_ID", "")
    if not job.isdecimal():
        return str(_PORT)
    return str(_PORT + int(job) % 1000)
