"""The gate in what admins have: the hook of a self-hosted runner, and LBNL Node Health Check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.small import FAILING_SUITE, SUITE, TARGET

if TYPE_CHECKING:
    from tests.lab import Lab

CLONE = Path(__file__).parents[2]
HOOK = CLONE / "fleet/runner/job-started.sh"
POWERSHELL_HOOK = CLONE / "fleet/runner/job-started.ps1"
WINDOWS_HOOK = CLONE / "fleet/runner/job_started.py"
NHC_CHECK = CLONE / "fleet/nhc/provision.nhc"
PROVISION = Path(sys.executable).with_name("provision")
BREAKS = "raise SystemExit(3)"
pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(sys.platform == "win32", reason="scripts of a shell"),
]

# What GitHub's runner sets for a hook, of the default variables:
# https://docs.github.com/actions/reference/workflows-and-actions/variables
GITHUB = {
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_JOB": "train",
    "GITHUB_WORKFLOW": "nightly",
    "RUNNER_NAME": "arc-7",
    "RUNNER_OS": "Linux",
}
# Variables that jobs set, and that must not reach the gate.
OF_JOB = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere"}


def start(
    lab: Lab, *shell: str | Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the hook as an engine does it, for the environment of a lab."""
    ours = {
        "PATH": os.environ["PATH"],
        "HOME": str(lab.project.root),
        "PROVISION": str(PROVISION),
        "PROVISION_PROJECT": str(lab.project.root),
    }
    return subprocess.run(
        [*map(str, shell)],
        env=ours | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def suite_of(lab: Lab, text: str) -> None:
    (lab.project.smoke / "run.py").write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook as GitHub's runner starts it, and its exit code that stops a job."""

    argv: tuple[str | Path, ...]
    stop: int


STOP = 3  # of job_started.py
# https://docs.github.com/actions/how-tos/manage-runners/self-hosted-runners/run-scripts
BASH = Hook((shutil.which("bash") or "bash", "-e", HOOK), 1)
SH = Hook(("sh", HOOK), 1)
WINDOWS = Hook((sys.executable, "-I", WINDOWS_HOOK), STOP)  # job-started.ps1 starts it
SLOW = pytest.mark.slow


def github(lab: Lab, hook: Hook, **settings: str) -> subprocess.CompletedProcess[str]:
    return start(lab, *hook.argv, environ=GITHUB | OF_JOB | settings)


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param(SH, id="sh"),
        pytest.param(BASH, id="bash", marks=SLOW),  # GitLab's test has it
        pytest.param(WINDOWS, id="windows", marks=SLOW),
    ],
)
def test_a_job_runs_on_a_fit_runner(ready: Lab, hook: Hook) -> None:
    done = github(ready, hook)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("keep: tiny on ")
    assert "::" not in done.stdout


@pytest.mark.parametrize(
    "hook",
    [
        # GitLab's test has both, and the words to GitHub are those of a test below.
        pytest.param(SH, id="sh", marks=SLOW),
        pytest.param(BASH, id="bash", marks=SLOW),
        pytest.param(WINDOWS, id="windows"),
    ],
)
def test_a_job_fails_on_a_runner_that_is_not_fit_and_its_log_says_why(
    ready: Lab, hook: Hook
) -> None:
    suite_of(ready, FAILING_SUITE)
    done = github(ready, hook, PROVISION_TARGET=TARGET)
    assert done.returncode == hook.stop
    last = done.stdout.splitlines()[-1]
    assert last.startswith(
        "::error title=provision gate::this machine is not fit: tiny"
    )
    assert "tiny.check: it fails" in last
    assert "code    op-fails" in done.stdout


@pytest.mark.parametrize(
    ("hook", "trouble"),
    [
        pytest.param(SH, "suite", id="suite-sh"),
        pytest.param(SH, "program", id="program-sh"),
        pytest.param(SH, "python", id="python-sh"),
        pytest.param(BASH, "suite", id="suite-bash", marks=SLOW),
        pytest.param(WINDOWS, "suite", id="suite-windows", marks=SLOW),
        pytest.param(WINDOWS, "program", id="program-windows"),
        pytest.param(WINDOWS, "python", id="python-windows"),
    ],
)
def test_no_verdict_warns_and_fails_the_job_only_where_that_is_asked_for(
    ready: Lab, tmp_path: Path, trouble: str, hook: Hook
) -> None:
    suite_of(ready, BREAKS)
    settings = {}
    if trouble == "program":
        settings["PROVISION"] = str(tmp_path / "absent")
    if trouble == "python":  # one that is broken exits with 1, too
        program = tmp_path / "broken"
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
        settings["PROVISION"] = str(program)
    done = github(ready, hook, **settings)
    assert done.returncode == 0, done.stderr
    assert "::warning title=provision gate::no verdict" in done.stdout
    stopped = github(ready, hook, **settings, PROVISION_NO_VERDICT="fail")
    assert stopped.returncode == hook.stop


@pytest.mark.parametrize("hook", [SH, WINDOWS], ids=["sh", "windows"])
def test_what_a_gate_says_is_no_command_of_github(
    ready: Lab, tmp_path: Path, hook: Hook
) -> None:
    program = tmp_path / "gate"
    program.write_text(
        "#!/bin/sh\ncat << 'EOF'\n"
        "remove: tiny: 50% of it\\n::add-mask::a%0A::add-mask::b\n"
        " ::error::c\n::stop-commands::d\n##[error]e\nEOF\nexit 1\n"
    )
    program.chmod(0o755)
    done = start(ready, *hook.argv, environ=GITHUB | {"PROVISION": str(program)})
    assert done.returncode == hook.stop
    commands = [
        line
        for line in done.stdout.splitlines()
        if line.lstrip().startswith("::") or "##[" in line
    ]
    (command,) = commands
    assert command == (
        "::error title=provision gate::this machine is not fit: "
        "tiny: 50%25 of it\\n::add-mask::a%250A::add-mask::b"
    )


# Prints each place that the grammar does not know.
PARSE = """
import sys, tree_sitter, tree_sitter_powershell as grammar
text = open(sys.argv[1], "rb").read()
parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
nodes = [parser.parse(text).root_node]
for node in nodes:
    nodes.extend(node.children)
    if node.type == "ERROR" or node.is_missing:
        print(node.start_point, node.text)
"""


@pytest.mark.fleet
def test_the_hook_of_windows_is_powershell(tools: Path, tmp_path: Path) -> None:
    def errors(path: Path) -> str:
        argv = map(str, [tools / "python", "-I", "-c", PARSE, path])
        return subprocess.check_output(list(argv), text=True)

    text = POWERSHELL_HOOK.read_text(encoding="ascii")
    assert errors(POWERSHELL_HOOK) == ""
    broken = tmp_path / "broken.ps1"
    broken.write_text(text.replace("{ exit 1 }", "{ exit 1 ", 1))
    assert errors(broken)
    assert f"-eq {STOP}) {{ exit 1 }}" in text


@pytest.mark.parametrize(("suite", "code"), [(SUITE, 0), (FAILING_SUITE, 1)])
def test_gitlab_runs_it_within_the_script_of_a_job(
    ready: Lab, suite: str, code: int
) -> None:
    """gitlab-runner puts it before the job's own lines, in one script of bash with these options."""
    suite_of(ready, suite)
    script = f"set -eo pipefail\n{HOOK}\necho sources\n"
    bash = shutil.which("bash") or "bash"
    done = start(ready, bash, "-c", script, environ={"GITLAB_CI": "true"})
    assert (done.returncode, "sources" in done.stdout) == (code, code == 0)
    assert "::" not in done.stdout
    assert ("error: this machine is not fit: tiny" in done.stdout) == (code == 1)


@pytest.fixture
def nhc() -> Path:
    """The sources of LBNL NHC, which `.ci/fleet` fetches: a program of bash and its checks."""
    named = os.environ.get("PROVISION_NHC", "")
    if (
        named == "unreachable"
    ):  # as `.ci/fleet` found; any other absence is a failure there
        pytest.skip("the host of LBNL Node Health Check cannot be reached")
    folder = Path(named or CLONE / ".cache/nhc")
    if not (folder / "nhc").is_file():
        reason = "`.ci/fleet` fetches LBNL Node Health Check"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return folder


def run_nhc(
    nhc: Path, lab: Lab, folder: Path, check: str
) -> subprocess.CompletedProcess[str]:
    """Run NHC with its own checks, ours, and a configuration of one line."""
    shutil.copytree(nhc / "scripts", folder / "scripts", dirs_exist_ok=True)
    shutil.copy(NHC_CHECK, folder / "scripts")
    (folder / "nhc.conf").write_text(f"* || {check}\n")
    helper = folder / "offline"
    helper.write_text(f'#!/bin/sh\necho "$@" > {folder}/marked\n')
    helper.chmod(0o755)
    settings = {
        "PROVISION": PROVISION,
        "PROVISION_STATE": folder / "state",
        "NHC_RM": "slurm",
        "OFFLINE_NODE": helper,
        "ONLINE_NODE": ":",
        "LOGFILE": "-",
        "TIMEOUT": "60",
        "VERBOSE": "1",
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    words = ["-D", str(folder), *words]
    return start(lab, nhc / "nhc", *words, environ={})


@pytest.mark.fleet
@pytest.mark.parametrize(
    ("suite", "code"),
    [(SUITE, 0), (FAILING_SUITE, 1), (BREAKS, 0)],
    ids=["fit", "bad", "none"],
)
def test_nhc_marks_a_node_offline_by_a_verdict_alone(
    nhc: Path, ready: Lab, tmp_path: Path, suite: str, code: int
) -> None:
    suite_of(ready, suite)
    check = f"check_provision {TARGET} {ready.project.root} 50s"
    done = run_nhc(nhc, ready, tmp_path, check)
    assert done.returncode == code, done.stdout + done.stderr
    marked = tmp_path / "marked"
    assert marked.exists() == (code == 1)
    if code:
        assert "remove op-fails tiny gate: tiny.check: it fails" in marked.read_text()
    if suite == BREAKS:
        assert "check_provision:  no verdict, exit code 2" in done.stdout
    (verdict,) = (tmp_path / "state/verdicts").iterdir()
    assert verdict.name.endswith(".tiny.gate.json")


@pytest.mark.fleet
def test_nhc_refuses_a_check_without_a_target(
    nhc: Path, ready: Lab, tmp_path: Path
) -> None:
    done = run_nhc(nhc, ready, tmp_path, "check_provision")
    assert done.returncode == 1
    assert "No target specified" in done.stdout + done.stderr
