"""The manifests against the published schemas, and the script of the DaemonSet on a host."""

from __future__ import annotations

import json
import os
import re
import shutil
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
RULE = "NodeFeatureRule"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: fetch, image: example/fetch}]
      containers: [{name: train, image: example/train}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      initContainers: [{name: fetch, image: example/fetch}]
      containers: [{name: serve, image: example/serve}]
"""


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")))


def validate(tools: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [tools / "kubernetes-validate", "--strict", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def accept(tools: Path, *words: str | Path) -> None:
    done = validate(tools, *words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_the_schemas_accept_the_manifests(tools: Path, version: str) -> None:
    names = ("daemonset.yaml", "job.yaml", "node-problem-detector.yaml")
    files = [MANIFESTS / name for name in names]
    accept(tools, "--kubernetes-version", version, *files)


def test_the_schemas_accept_the_pod_of_the_page(tools: Path, tmp_path: Path) -> None:
    (pod,) = yaml_blocks("docs/how-to/docker.md")
    write(tmp_path / "pod.yaml", pod)
    accept(tools, tmp_path / "pod.yaml")


def test_kustomize_makes_them_nvidia_s_and_puts_a_gate_before_a_job(
    tools: Path, tmp_path: Path
) -> None:
    shutil.copytree(MANIFESTS, tmp_path / "provision/fleet/kubernetes")
    _, kustomization = yaml_blocks("docs/how-to/fleet.md")
    write(tmp_path / "kustomization.yaml", kustomization)
    write(tmp_path / "job.yaml", JOB)
    named = yaml.safe_load(kustomization)
    for place in named["resources"] + named["components"]:
        assert (tmp_path / place).exists()
    if shutil.which("kubectl") is None:
        reason = "there is no kubectl, which has kustomize; Debian's is too old"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    argv = ["kubectl", "kustomize", tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    write(tmp_path / "all.yaml", done.stdout)
    found = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    pod = found["DaemonSet"]["spec"]["template"]["spec"]
    judge_daemonset(pod)
    (prove,) = pod["initContainers"]
    (image,) = named["images"]
    for kind in ("Job", "Deployment"):
        gate, fetch = found[kind]["spec"]["template"]["spec"]["initContainers"]
        assert gate["name"] == "provision-gate"
        assert fetch["name"] == "fetch"
        assert gate["image"] == f"{image['newName']}:{image['newTag']}"
        # With a device of Intel's the pod waits for ever.
        assert gate["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": 1}
    assert prove["image"] == gate["image"]
    # No schema of a NodeFeatureRule is published with those of Kubernetes.
    text = yaml.safe_dump_all(each for each in found.values() if each != found[RULE])
    write(tmp_path / "checked.yaml", text)
    accept(tools, tmp_path / "checked.yaml")


def judge_daemonset(pod: dict[str, Any]) -> None:
    assert pod["runtimeClassName"] == "nvidia"
    (prove,) = pod["initContainers"]
    variables = {each["name"]: each["value"] for each in prove["env"]}
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert variables["FEATURES"] == "/features"
    assert "cuda-linux" in prove["image"]
    labels = re.findall(r"pci-(\d+)_(\w+)\.present", json.dumps(pod["affinity"]))
    assert labels == [("0300", "10de"), ("0302", "10de")]


def test_the_schemas_refuse_a_key_that_is_none(tools: Path, tmp_path: Path) -> None:
    (job,) = documents("job.yaml")
    job["spec"]["backoffLimitPerNode"] = 1
    write(tmp_path / "job.yaml", yaml.safe_dump(job))
    assert validate(tools, tmp_path / "job.yaml").returncode != 0


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
    for name in ("smoke", "verdict"):
        text = (CLONE / "docker/bin" / name).read_text(encoding="utf-8")
        write(host.root / "opt/bin" / name, text, mode=0o755)
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
