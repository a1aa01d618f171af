"""The place of a process in its job, by what each launcher sets, and ``gate --group`` with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.commands.launched import read_launched
from provision.core.errors import UsageError
from tests.cli.test_contract import suite_of
from tests.small import FAILING_SUITE, SUITE, TARGET

if TYPE_CHECKING:
    from tests.lab import Lab

ADDRESS = {"MASTER_ADDR": "n1", "MASTER_PORT": "4000"}
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"} | ADDRESS
USES_AGENT, ATTEMPT = "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"
SRUN = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
}
INTEL_MPI = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}
BATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "12034"}


@pytest.mark.parametrize(
    ("variables", "address", "port", "store"),
    [
        (TORCHRUN, "n1", "4000", "own"),
        (TORCHRUN | {USES_AGENT: "True"}, "n1", "4000", "launcher/0"),
        (TORCHRUN | {USES_AGENT: "True", ATTEMPT: "2"}, "n1", "4000", "launcher/2"),
        (TORCHRUN | BATCH, "n1", "4000", "own"),
        (SRUN | {"SLURM_STEP_NODELIST": "n[07-09,11],m1"}, "n07", "29500", "own"),
        (SRUN | {"SLURM_STEP_NODELIST": "n[7,9]-ib"}, "n7-ib", "29500", "own"),
        (SRUN | {"SLURM_STEP_NODELIST": "n[01-04]-ib,m"}, "n01-ib", "29500", "own"),
        (
            SRUN | {"SLURM_STEP_NODELIST": "a1b[01-02]c[2-3]"},
            "a1b01c2",
            "29500",
            "own",
        ),
        (
            SRUN | {"SLURM_NODELIST": "gpu1", "SLURM_JOB_ID": "7"},
            "gpu1",
            "29507",
            "own",
        ),
        (OPEN_MPI | BATCH | ADDRESS, "n1", "4000", "own"),
        (INTEL_MPI | {"MASTER_ADDR": "10.0.0.1"}, "10.0.0.1", "29500", "own"),
    ],
)
def test_each_launcher_gives_a_process_its_place(
    variables: dict[str, str], address: str, port: str, store: str
) -> None:
    found = read_launched(variables | {"NCCL_SOCKET_IFNAME": "ib0", "CUDA_HOME": "/x"})
    place = {"address": address, "port": port, "store": store}
    assert found.facts == {"rank": "5", "size": "8"} | place
    assert found.local == 1
    assert found.network == {"NCCL_SOCKET_IFNAME": "ib0"}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "no group: start it under torchrun, srun or mpirun"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "no group: start it under torchrun"),
        (INTEL_MPI, "the host of rank 0 is not known"),
        (SRUN | {"SLURM_STEP_NODELIST": "n[01-04"}, "the host of rank 0 is not known"),
        (TORCHRUN | {"WORLD_SIZE": "0"}, "one process has nothing to compare with"),
        (TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}, "WORLD_SIZE=1: one process"),
        (TORCHRUN | {"WORLD_SIZE": "5"}, "RANK=5 is not below WORLD_SIZE=5"),
        (TORCHRUN | {"LOCAL_RANK": "x"}, "LOCAL_RANK=x: not a number"),
        (TORCHRUN | {"MASTER_PORT": "99999"}, "MASTER_PORT=99999: not a port"),
    ],
)
def test_a_process_without_a_place_is_told_how_to_get_one(
    variables: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        read_launched(variables)
    assert raised.value.remedy


# A suite that breaks unless it gets its place in the group, and the caller's network.
GROUPED = """
import json, os, sys
assert json.load(open(sys.argv[1]))["group"]["rank"] == "5"
assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"
"""


@pytest.mark.machine
def test_the_verdict_of_a_group_replaces_none_of_a_gate(
    ready: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gate", TARGET, "--group", "--project", str(ready.project.root)]
    verdicts = ready.project.root / ".envs/verdicts"
    for names in (TORCHRUN, OPEN_MPI, INTEL_MPI, SRUN):
        for name in names:
            monkeypatch.delenv(name, raising=False)
    assert main.main([*words, "--node", "n1"]) == 2
    assert "no group: start it under torchrun" in capsys.readouterr().out
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    suite_of(ready, GROUPED + SUITE)
    assert main.main([*words, "--node", "n1"]) == 0
    assert "GLOO_SOCKET_IFNAME" in capsys.readouterr().err
    (stored,) = verdicts.glob("n1.*")
    assert stored.name == f"n1.{TARGET}.group.json"
    assert json.loads(stored.read_text(encoding="utf-8"))["suite"] == "group"
    assert main.main([*words, "--device", "all"]) == 2
    hung = FAILING_SUITE.replace('"op-fails"', '"probe-hung"')
    suite_of(ready, hung.replace("tiny.check", "group.exchange"))
    assert main.main([*words, "--node", "n2"]) == 2  # any node can be why
    (stored,) = verdicts.glob("n2.*")
    assert json.loads(stored.read_text(encoding="utf-8"))["code"] == "network-failure"
    suite_of(ready, "raise SystemExit(3)")
    assert main.main([*words, "--node", "n3"]) == 2
