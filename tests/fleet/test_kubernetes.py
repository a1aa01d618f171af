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
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    return workload["spec"]["template"]["spec"]


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
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    argv = ["kubectl", "kustomize", tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    write(tmp_path / "all.yaml", done.stdout)
    found = {}
    for manifest in yaml.safe_load_all(done.stdout):
        found[manifest["kind"]] = manifest
    daemon = pod_of(found["DaemonSet"])
    judge_daemonset(daemon)
    (prove,) = daemon["initContainers"]
    (named_image,) = named["images"]
    image = f"{named_image['newName']}:{named_image['newTag']}"
    assert prove["image"] == image
    for kind in ("Job", "Deployment"):
        pod = pod_of(found[kind])
        gate, fetch = pod["initContainers"]
        assert gate["name"] == "provision-gate"
        assert fetch["name"] == "fetch"
        assert gate["image"] == image
        # With a device of Intel's the pod waits for ever.
        limits = gate["resources"]["limits"]
        assert limits == {"memory": "4Gi", "nvidia.com/gpu": 1}
    # No schema of a NodeFeatureRule is published with those of Kubernetes.
    del found[RULE]
    checked = tmp_path / "checked.yaml"
    write(checked, yaml.safe_dump_all(found.values()))
    accept(tools, checked)


def judge_daemonset(pod: dict[str, Any]) -> None:
    assert pod["runtimeClassName"] == "nvidia"
    (prove,) = pod["initContainers"]
    variables = {}
    for variable in prove["env"]:
        variables[variable["name"]] = variable["value"]
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert variables["FEATURES"] == "/features"
    assert "cuda-linux" in prove["image"]
    affinity = json.dumps(pod["affinity"])
    labels = re.findall(r"pci-(\w+)\.present", affinity)
    assert labels == ["0300_10de", "0302_10de"]


def test_the_schemas_refuse_a_key_that_is_none(tools: Path, tmp_path: Path) -> None:
    (job,) = documents("job.yaml")
    job["spec"]["backoffLimitPerNode"] = 1
    changed = tmp_path / "job.yaml"
    write(changed, yaml.safe_dump(job))
    done = validate(tools, changed)
    assert done.returncode != 0


def test_rule_and_daemonset_speak_of_the_same_label_and_taint() -> None:
    (document,) = documents("rule.yaml")
    (rule,) = document["spec"]["rules"]
    features = rule["matchFeatures"][0]
    (label,) = features["matchExpressions"]
    (taint,) = rule["taints"]
    _, script, daemonset = documents("daemonset.yaml")
    domain, _, name = label.partition("/")
    program = script["data"]["prove.sh"]
    assert f"{domain}/%s" in program
    assert f"{name}=" in program
    (tolerated,) = pod_of(daemonset)["tolerations"]
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
    opt = host.root / "opt"
    _, script, _ = documents("daemonset.yaml")
    write(opt / "prove.sh", script["data"]["prove.sh"])
    for name in ("smoke", "verdict"):
        program = CLONE / "docker/bin" / name
        text = program.read_text(encoding="utf-8")
        write(opt / "bin" / name, text, mode=0o755)
    write(opt / "provision/expect.json", '{"target": "poolxpu"}')
    for name, target in (
        ("env", "provision/toolkit/.envs/poolxpu/current"),
        ("provision/smoke", "toolkit/smoke"),
    ):
        link = opt / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    features = opt / "features"
    of_an_earlier_driver = "provision.example.org/verdict=keep\n"
    write(features / "provision", of_an_earlier_driver)
    suite = toolkit / "smoke/run.py"
    before = suite.read_text(encoding="utf-8")
    sick = host.card(1) / "sick"
    if trouble == "sick":
        sick.touch()
    elif trouble:
        suite.write_text("raise SystemExit(3)", encoding="utf-8")
    path = "PATH=/opt/bin:/opt/env/bin:/usr/bin:/bin"
    argv = ["env", path, "FEATURES=/opt/features", "sh", "/opt/prove.sh"]
    done = host.run(*argv, check=False)
    suite.write_text(before, encoding="utf-8")
    sick.unlink(missing_ok=True)
    assert done.returncode == code, done.stderr
    files = list(features.iterdir())
    if not labels:
        assert files == []
        return
    (file,) = files
    lines = file.read_text().splitlines()
    assert lines == [f"provision.example.org/{label}" for label in labels]
