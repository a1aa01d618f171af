"""The real cpu-windows: numpy, torch and the rest from the wheels that its lock names.

Where a read of standard input waits, `import torch` never ends under Wine either.
"""

from __future__ import annotations

import json

import pytest

from provision.core.project import Project
from tests.wine.conftest import Windows, copy_clone, windows_path

pytestmark = pytest.mark.wine
STACK = "cpu-windows"
# Beside the clone's own suite, which is one in miniature.
FOLDER = "real"


@pytest.fixture(scope="module")
def real(windows: Windows) -> Project:
    """Build the target with the real suite, from the wheels that `.ci/wine` downloaded."""
    project = Project(windows.project.root / FOLDER)
    copy_clone(project.root)
    spec = project.specs / f"{STACK}.toml"
    text = spec.read_text(encoding="utf-8")
    # Wine does not tell OpenMP's libraries which thread may run on which core.
    text += '[environment]\nKMP_AFFINITY = "disabled"\nOMP_NUM_THREADS = "1"\n'
    spec.write_text(text, encoding="utf-8")
    windows.nox("-s", "targets")  # makes the tools where no other test has
    wheels = windows_path(windows.home / "wheels")
    options = ["--project", FOLDER, "--offline", "--wheelhouse", wheels]
    windows.provision("build", STACK, *options)
    return project


def test_the_real_worker_proves_the_real_stack(real: Project) -> None:
    built = real.environments(STACK)
    generation = built / (built / ".current").read_text().strip()
    record = json.loads((generation / "provision.json").read_text(encoding="utf-8"))
    assert record["proof"] == "proven"
    (kept,) = (built / "reports").glob("*.json")
    report = json.loads(kept.read_text(encoding="utf-8"))
    outcomes = {check["id"]: check["outcome"] for check in report["checks"]}
    assert "failed" not in outcomes.values()
    # Imports, native code, and a process that the worker started.
    required = (
        "identity.import",
        "device.matmul",
        "fused.attention",
        "resume.fresh",
        "offload.disk",
    )
    assert {outcomes[name] for name in required} == {"passed"}


@pytest.mark.usefixtures("real")
def test_its_processes_end_with_their_parent(windows: Windows) -> None:
    tests = [
        "--noconftest",
        "-p",
        "no:cacheprovider",
        f"{FOLDER}/tests/smoke/test_lifetime.py",
    ]
    argv = ["python", "-m", "pytest", "-c", f"{FOLDER}/pyproject.toml", *tests]
    said, _ = windows.provision("run", STACK, "--project", FOLDER, "--", *argv)
    assert "15 passed, 2 skipped" in said
