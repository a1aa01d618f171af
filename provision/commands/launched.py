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
_FIRST_HOST = re.compile(r"([^,\[]+)(?:\[(\w+)[^\]]*\]([^,]*))?")  # of node[01-04,7]-ib


@dataclass(frozen=True, slots=True)
class Launched:
    """One process of a job."""

    facts: dict[str, str]  # what the suite expects as `group`
    local: int  # its number on its node
    network: dict[str, str]  # settings of the collectives


def in_group(request: "SmokeRequest", variables: Mapping[str, str]) -> "SmokeRequest":
    """Return the request for a process of a job, which checks one device of its own."""
    launched = read_launched(variables)
    own = "0" if request.target.accelerator == "cpu" else str(launched.local)
    device = request.device or own
    if device == "all":
        raise UsageError(
            "--group checks one device in each process", remedy="drop --device all"
        )
    return replace(request, suite="group", device=device, group=launched)


def read_launched(variables: Mapping[str, str]) -> Launched:
    """Return what the launcher says of this process; UsageError where there is none."""
    rank, size, local = _names(variables)
    facts = {"rank": variables[rank], "size": variables[size]}
    served = variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    facts |= {"address": _address(variables), "port": _port(variables)}
    facts["store"] = "launcher" if served else "own"
    network = {n: v for n, v in variables.items() if n.startswith(_NETWORK)}
    return Launched(facts, int(variables.get(local) or 0), network)


def _names(variables: Mapping[str, str]) -> tuple[str, str, str]:
    for names in _LAUNCHERS:
        if all(variables.get(name, "").isdecimal() for name in names[:2]):
            return names
    raise UsageError(
        "--group: no launcher has started this process",
        cause="torchrun, srun and mpirun set the rank of a process; none is set",
        remedy="run it in each process of a job, as in "
        "`srun --ntasks-per-node=1 provision gate TARGET --group`",
    )


def _address(variables: Mapping[str, str]) -> str:
    """Return the host of rank 0."""
    if address := variables.get("MASTER_ADDR", "").strip():
        return address
    nodes = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_NODELIST", "")
    if first := _FIRST_HOST.match(nodes):
        return "".join(part or "" for part in first.groups())
    raise UsageError(
        "--group: the host of rank 0 is not known",
        cause="torchrun sets MASTER_ADDR and srun a list of nodes; mpirun sets neither",
        remedy="set MASTER_ADDR to the name of that host, as in `mpirun -x MASTER_ADDR=node1 …`",
    )


def _port(variables: Mapping[str, str]) -> str:
    """Return the port of rank 0: of two jobs of Slurm on one node each has its own."""
    if port := variables.get("MASTER_PORT", "").strip():
        if port.isdecimal() and 0 < int(port) < 2**16:
            return port
        raise UsageError(
            f"MASTER_PORT={port}: not a port", remedy="set a number below 65536"
        )
    job = variables.get("SLURM_JOB_ID", "")
    return str(_PORT + int(job) % 1000 if job.isdecimal() else _PORT)
