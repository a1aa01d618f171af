"""The manifests against the published schemas, and the script of the DaemonSet on a host."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.commands.detect.conftest import write
from tests.fleet.machines import CLONE
from tests.recipes import yaml_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fleet.fleets import Fleet, Played

pytestmark = pytest.mark.fleet
MANIFESTS = CLONE / "fleet/kubernetes"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_the_schemas_accept_the_manifests(tools: Path, version: str) -> None:
    files = [MANIFESTS / "daemonset.yaml", MANIFESTS / "job.yaml"]
    program = tools / "kubernetes-validate"
    argv = [program, "--strict", "--kubernetes-version", version, *files]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schemas_accept_the_pod_of_the_page(tools: Path, tmp_path: Path) -> None:
    (pod,) = yaml_blocks("docs/how-to/docker.md")
    write(tmp_path / "pod.yaml", pod)
    argv = [tools / "kubernetes-validate", "--strict", tmp_path / "pod.yaml"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schemas_refuse_a_key_that_is_none(tools: Path, tmp_path: Path) -> None:
    (job,) = documents("job.yaml")
    job["spec"]["backoffLimitPerNode"] = 1
    write(tmp_path / "job.yaml", yaml.safe_dump(job))
    argv = [tools / "kubernetes-validate", "--strict", tmp_path / "job.yaml"]
    assert subprocess.run(argv, capture_output=True, check=False).returncode != 0


def test_rule_and_daemonset_speak_of_the_same_label_and_taint() -> None:
    ((rule,),) = ([*document["spec"]["rules"]] for document in documents("rule.yaml"))
    (label,) = rule["matchFeatures"][0]["matchExpressions"]
    (taint,) = rule["taints"]
    _, script, daemonset = documents("daemonset.yaml")
    domain, _, name = label.partition("/")
    assert f"{domain}/%s" in script["data"]["prove.sh"]
    assert f"{name}=" in script["data"]["prove.sh"]
    (tolerated,) = daemonset["spec"]["template"]["spec"]["tolerations"]
    assert tolerated["key"] == taint["key"]


@pytest.mark.parametrize(
    ("trouble", "code", "labels"),
    [
        ("", 0, ["verdict=keep", "code=none"]),
        ("sick", 0, ["verdict=remove", "code=wrong-numbers"]),
        ("broken suite", 2, []),
    ],
)
def test_the_script_leaves_labels_only_of_a_verdict(
    fleet: Fleet, first: Played, trouble: str, code: int, labels: list[str]
) -> None:
    """On a host laid out as the image is: the checks below /opt/provision, python in /opt/env."""
    host = fleet.lab.hosts["late"]
    toolkit = host.root / "opt/provision/toolkit"
    write(
        host.root / "opt/prove.sh", documents("daemonset.yaml")[1]["data"]["prove.sh"]
    )
    write(
        host.root / "opt/bin/smoke",
        (CLONE / "docker/bin/smoke").read_text(),
        mode=0o755,
    )
    write(host.root / "opt/provision/expect.json", '{"target": "poolxpu"}')
    for link, target in (
        ("env", "provision/toolkit/.envs/poolxpu/current"),
        ("provision/smoke", "toolkit/smoke"),
    ):
        (host.root / "opt" / link).unlink(missing_ok=True)
        (host.root / "opt" / link).symlink_to(target)
    features = host.root / "opt/features"
    write(
        features / "provision", "provision.example.org/verdict=keep\n"
    )  # of an earlier driver
    suite = toolkit / "smoke/run.py"
    before = suite.read_text(encoding="utf-8")
    if trouble == "sick":
        (host.card(1) / "sick").touch()
    elif trouble:
        suite.write_text("raise SystemExit(3)", encoding="utf-8")
    path = "PATH=/opt/bin:/opt/env/bin:/usr/bin:/bin"
    done = host.run(
        "env", path, "FEATURES=/opt/features", "sh", "/opt/prove.sh", check=False
    )
    suite.write_text(before, encoding="utf-8")
    (host.card(1) / "sick").unlink(missing_ok=True)
    found = [p.read_text().splitlines() for p in features.iterdir()]
    wanted = [[f"provision.example.org/{label}" for label in labels]] if labels else []
    assert (done.returncode, found) == (code, wanted), done.stderr
