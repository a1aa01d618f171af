"""The action ``setup-provision``: its scripts are run as a runner runs them, with the real toolkit.

What the actions of others do (a Python, a cache) is given; the expressions are looked up here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.lab import open_lab
from tests.recipes import workflow_steps
from tests.small import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab import Lab

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
HOSTILE = [
    'tiny"; touch pwned; "',
    "$(touch pwned)",
    "tiny\nlock=0",
    "--help",
    "../tiny",
    "",
]


@dataclass
class Runner:
    """What a runner keeps of a job between its steps."""

    folder: Path
    workspace: Path
    variables: dict[str, str]
    path: list[str]
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    summary: str = ""

    def value(self, name: str) -> str:
        """Return what an expression means; KeyError if it is more than a name."""
        output = re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", name)
        if output:
            identifiers = [step["id"] for step in STEPS]
            step, key = output.groups()
            assert step in [*identifiers, "provision"], name
            return self.outputs[step].get(key, "")
        values = {
            "runner.temp": str(self.folder),
            "runner.os": "Linux",
            "runner.arch": "X64",
            "github.action_path": str(ROOT),
        }
        if name in values:
            return values[name]
        return self.inputs[name.removeprefix("inputs.")]

    def text(self, template: object) -> str:
        def value(expression: re.Match[str]) -> str:
            return self.value(expression[1])

        return re.sub(r"\$\{\{ (.*?) \}\}", value, str(template))

    def texts(self, templates: dict[str, Any]) -> dict[str, str]:
        return {name: self.text(template) for name, template in templates.items()}

    def wanted(self, condition: str) -> bool:
        parts = re.fullmatch(r"(\S+) != '(\w+)'", condition)
        assert parts, condition
        name, text = parts.groups()
        return self.value(name) != text

    def step(self, step: dict[str, Any]) -> subprocess.CompletedProcess[str] | None:
        """Run a step, or note how it uses another action."""
        if not self.wanted(step.get("if", "runner.os != 'Windows'")):
            return None
        if "uses" in step:
            self.used[step["id"]] = self.texts(step["with"])
            return None
        variables = self.variables | self.texts(step["env"])
        files = []
        for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"):
            file = self.folder / name
            file.write_text("", encoding="utf-8")
            files.append(file)
            variables[name] = str(file)
        variables["PATH"] = os.pathsep.join([*self.path, os.defpath])
        variables |= {"RUNNER_OS": "Linux", "RUNNER_TEMP": str(self.folder)}
        done = subprocess.run(
            ["/bin/bash", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.workspace,
            check=False,
            capture_output=True,
            text=True,
            env=variables,
        )
        output, path, summary = [file.read_text(encoding="utf-8") for file in files]
        identifier = step["id"]
        for line in output.splitlines():
            name, value = line.split("=", 1)
            self.outputs[identifier][name] = value
        self.path[:0] = path.splitlines()
        self.summary += summary
        self.ran.append(identifier)
        return done

    def job(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run all steps after the installation, up to one that fails."""
        for name, described in ACTION["inputs"].items():
            self.inputs[name] = described["default"]
        self.inputs |= inputs
        done = None
        for step in STEPS[2:]:
            done = self.step(step) or done
            if done and done.returncode:
                break
        assert done is not None
        return done


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[tuple[Runner, Lab]]:
    """A runner after the installation, whose command is that of this environment."""
    with open_lab(tmp_path / "my projects") as lab:
        folder = tmp_path / "runner with spaces"
        command = folder / "provision" / "command"
        command.mkdir(parents=True)
        program = Path(sys.prefix, "bin", "provision")
        (command / "provision").symlink_to(program)
        variables = {
            "HOME": str(tmp_path),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{lab.index.url}/default/",
        }
        made = Runner(folder, lab.project.root.parent, variables, [str(command)])
        made.outputs["python"]["python-path"] = sys.executable
        yield made, lab


@pytest.mark.network
@pytest.mark.slow
def test_the_toolkit_is_installed_and_path_gets_its_commands_alone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "runner with spaces"
    folder.mkdir()
    runner = Runner(folder, folder, {**os.environ}, [])
    runner.outputs["python"]["python-path"] = sys.executable
    done = runner.step(STEPS[1])
    assert done is not None
    assert done.returncode == 0, done.stderr
    commands = {path.name: path for path in Path(runner.path[0]).iterdir()}
    for name in commands:
        assert "provision" in name
    subprocess.run([commands["provision"], "schema"], check=True, capture_output=True)


@pytest.mark.network
def test_a_job_ends_with_a_proven_environment_and_its_outputs(
    runner: tuple[Runner, Lab],
) -> None:
    """By the workflow of docs/how-to/ci.md, whose target and folder are the lab's."""
    job, lab = runner
    _, ours, train, upload = workflow_steps()
    inputs = ours["with"] | {"project": "project", "target": "auto"}
    done = job.job(**inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = {}
    for name, described in ACTION["outputs"].items():
        outputs[name] = job.text(described["value"])
    requirements = lab.project.lock(TARGET) / "requirements.txt"
    lock = requirements.read_text(encoding="utf-8")
    seal, *_ = re.findall("^# seal: (.+)$", lock, re.MULTILINE)
    assert outputs["target"] == TARGET
    assert outputs["lock"] == seal
    cache = job.used["cache"]
    assert cache["key"] == f"provision-Linux-X64-{TARGET}-{seal}"
    cached, _ = cache["path"].splitlines()
    assert list(Path(cached).glob("archive-v*"))
    junit = Path(outputs["junit"])
    assert "<testsuite" in junit.read_text(encoding="utf-8")
    code = "import alpha, sys; print(alpha.version, *sys.argv[1:])"
    (job.workspace / "train.py").write_text(code, encoding="utf-8")
    job.outputs[ours["id"]] = outputs
    step = {"id": "train", "if": "inputs.checks != 'none'"} | train
    done = job.step(step)
    assert done is not None
    assert done.stdout == "1.0 --steps 2\n"
    assert job.text(upload["with"]["path"]) == outputs["junit"]
    assert job.summary.startswith(f"### Provision: `{TARGET}`\n~~~~~~text\n")
    assert "ok   tiny 1" in job.summary


@pytest.mark.network
@pytest.mark.slow
def test_a_failed_check_fails_the_job_and_none_claims_nothing(
    runner: tuple[Runner, Lab],
) -> None:
    job, lab = runner
    broken = lab.wheel("broken")
    lab.relock(*lab.wheels, broken)
    done = job.job(project="project", target=TARGET, checks="none")
    assert done.returncode == 0, done.stderr
    assert "not proven" in done.stdout + done.stderr
    assert job.ran[-1] == "build"
    assert job.text(ACTION["outputs"]["junit"]["value"]) == ""
    job.inputs["checks"] = "quick"
    done = job.step(STEPS[-1])
    assert done is not None
    assert done.returncode == 1, done.stdout + done.stderr
    assert "it fails" in done.stdout
    assert "it fails" in job.summary
    assert "doctor" in job.summary
    assert job.summary.count("~~~~~~") == 2
    assert Path(job.outputs["smoke"]["junit"]).is_file()


@pytest.mark.network
def test_a_lock_that_is_not_fresh_ends_the_job_before_a_build(
    runner: tuple[Runner, Lab],
) -> None:
    job, lab = runner
    spec = lab.project.specs / f"{TARGET}.toml"
    text = spec.read_text()
    spec.write_text(text.replace('["alpha"]', '["alpha", "gamma"]'))
    done = job.job(project="project", target=TARGET)
    assert done.returncode == 1
    assert job.ran == ["choose"]
    assert job.outputs["choose"] == {}


@pytest.mark.network
@pytest.mark.parametrize("name", ["target", "checks", "project"])
def test_attack_an_input_is_no_code(runner: tuple[Runner, Lab], name: str) -> None:
    """An input of the action that would be code in a script.

    Promise: it is refused before it becomes an output, a path or a command.
    """
    job, _ = runner
    for text in HOSTILE:
        inputs = {"project": "project", "target": TARGET}
        inputs[name] = text
        done = job.job(**inputs)
        assert done.returncode != 0, done.stdout
        assert set(job.ran) == {"choose"}
        assert job.outputs["choose"] == {}
    assert list(job.workspace.rglob("pwned")) == []


def test_no_script_holds_an_expression() -> None:
    flow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
    steps = [*STEPS]
    for job in flow["jobs"].values():
        steps += job["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) > 7
    for script in scripts:
        assert "${{" not in script


def test_each_input_and_output_is_described_where_users_look() -> None:
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (input|output) \|", page, re.MULTILINE)
    inputs = [(name, "input") for name in ACTION["inputs"]]
    outputs = [(name, "output") for name in ACTION["outputs"]]
    assert sorted(rows) == sorted(inputs + outputs)
