"""The checks that are shipped, with torch, under slurmd: by the prolog and by the health check."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.fleet import slurm
from tests.fleet.machines import CLONE, open_lab

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fleet, pytest.mark.slow]
# On a busy machine all quick checks take longer than a health check may.
SETTINGS = f"""
PROVISION={CLONE}/.tools/bin/provision
PROVISION_PROJECT=/mnt/project
PROVISION_TARGET=cpu-linux
PROVISION_GATE_LIMIT=5m
PROVISION_TIME_LIMIT=9m
"""


def test_the_real_checks_keep_a_node(python: Path, tmp_path: Path) -> None:
    built = python.parents[2]
    with open_lab(tmp_path) as lab:
        project = lab.shared / "project"
        (project / ".envs").mkdir(parents=True)
        (project / ".envs/cpu-linux").symlink_to(built)
        shutil.copytree(
            CLONE / "envs", project / "envs"
        )  # a spec is no link to outside
        for name in ("lockfiles", "smoke"):
            (project / name).symlink_to(CLONE / name)
        node = lab.add("real", CLONE, built)
        cluster = slurm.start(lab, [node], SETTINGS)
        cluster.call("sbatch", "--output=/dev/null", "--wrap=touch /mnt/ran")
        cluster.until((lab.shared / "ran").exists)
        cluster.wait("real", "idle")
        node.run("env", "SLURMD_NODENAME=real", "/mnt/slurm/health")
        found = {}
        for path in (node.root / "var/lib/provision/verdicts").iterdir():
            verdict = json.loads(path.read_text(encoding="utf-8"))
            found[verdict["suite"]] = verdict["verdict"], verdict["torch"][:2]
        assert found == {"gate": ("keep", "2."), "quick": ("keep", "2.")}
        assert cluster.node("real") == ("idle", "none")
