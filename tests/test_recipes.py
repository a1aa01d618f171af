"""The recipes of docs/how-to/ci.md, each as the tool takes it that reads it; and the actions in use."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from check_jsonschema.cli import main as check_jsonschema
from click.testing import CliRunner

from tests.checkout import commit_all, commit_copy
from tests.recipes import (
    GITLAB,
    HOOKS,
    PAGE,
    ROOT,
    WORKFLOW,
    filled_in,
    recipes,
    used_actions,
    yaml_blocks,
)

TOOLS = Path(sys.executable).parent
OURS = "OWNER/provision"
HAS_LINTERS = (sys.platform, platform.machine()) == ("linux", "x86_64")
linters = pytest.mark.skipif(not HAS_LINTERS, reason="actionlint has no wheel for this")


def call(*argv: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    path = {"PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]])}
    return subprocess.run(
        argv,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | path,
    )


def test_each_block_has_a_tool_that_checks_it() -> None:
    """tests/fleet has kubernetes-validate, ansible-inventory and kustomize."""
    counts = {}
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT).as_posix()
        if blocks := yaml_blocks(page):
            counts[page] = len(blocks)
    assert counts == {PAGE: 3, "docs/how-to/docker.md": 1, "docs/how-to/fleet.md": 2}
    assert recipes().keys() == {WORKFLOW, GITLAB, HOOKS}


@pytest.mark.parametrize(
    ("recipe", "schema"),
    [(WORKFLOW, "vendor.github-workflows"), (GITLAB, "vendor.gitlab-ci")],
)
def test_a_recipe_fits_the_schema_of_its_service(
    recipe: str, schema: str, tmp_path: Path
) -> None:
    file = tmp_path / "recipe.yml"
    file.write_text(recipes()[recipe], encoding="utf-8")
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, str(file)])
    assert done.exit_code == 0, done.output


@pytest.mark.network
@pytest.mark.slow
def test_the_job_of_gitlab_gets_the_toolkit(tmp_path: Path) -> None:
    """Its commands are run by tests/test_commands.py."""
    commit_copy(tmp_path / "provision")
    (job,) = yaml.safe_load(filled_in(GITLAB, tmp_path / "provision")).values()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "image"], check=True)
    path = f'PATH="{tmp_path}/image/bin:$PATH"'
    script = "\n".join([path, *job["before_script"], "provision schema"])
    done = call("/bin/bash", "-euo", "pipefail", "-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "{" in done.stdout


def linted(folder: Path, workflow: str) -> subprocess.CompletedProcess[str]:
    """Return what actionlint says of a workflow beside the action that it uses."""
    file = folder / WORKFLOW
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(re.sub(f"{OURS}@.*", "./", workflow), encoding="utf-8")
    (folder / "action.yml").write_bytes((ROOT / "action.yml").read_bytes())
    commit_all(folder)
    return call(TOOLS / "actionlint", "-no-color", WORKFLOW, cwd=folder)


@linters
@pytest.mark.machine
def test_actionlint_accepts_the_workflow_with_the_inputs_and_outputs_of_the_action(
    tmp_path: Path,
) -> None:
    good = recipes()[WORKFLOW]
    done = linted(tmp_path / "good", good)
    assert done.returncode == 0, done.stdout
    for number, (old, new) in enumerate(
        [
            ("checks: full", "check: full"),
            ("outputs.junit }}", "outputs.xml }}"),
            ("train.py", "$FILE"),
        ]
    ):
        assert old in good
        assert linted(tmp_path / str(number), good.replace(old, new)).returncode == 1


@linters
@pytest.mark.machine
def test_actionlint_and_shellcheck_accept_our_own_workflow_and_scripts(
    tmp_path: Path,
) -> None:
    done = call(TOOLS / "actionlint", "-no-color")
    assert done.returncode == 0, done.stdout
    scripts = [
        path
        for pattern in (".ci/*", "docker/bin/*", "docker/*.sh", "fleet/*/*")
        for path in ROOT.glob(pattern)
        if path.is_file()
        and re.match("#!.*sh$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(scripts) > 10
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for step in action["runs"]["steps"]:
        if "run" in step:
            script = tmp_path / f"{step['id']}.sh"
            text = f"#!/bin/{step['shell']}\nset -eo pipefail\n{step['run']}"
            script.write_text(text, encoding="utf-8")
            scripts.append(script)
    strict = ["--external-sources", "--source-path=SCRIPTDIR", "--severity=warning"]
    done = call(TOOLS / "shellcheck", *strict, *scripts)
    assert done.returncode == 0, done.stdout
    scripts[-1].write_text("#!/bin/sh\ncd $1\n", encoding="utf-8")
    assert call(TOOLS / "shellcheck", *strict, scripts[-1]).returncode == 1


@pytest.mark.machine
def test_zizmor_finds_no_weakness_in_the_workflow(tmp_path: Path) -> None:
    file = tmp_path / WORKFLOW
    file.parent.mkdir(parents=True)
    quiet = ["--offline", "--quiet", "--no-progress", "--strict-collection"]
    good = recipes()[WORKFLOW].replace("@TAG", f"@{0:040}")
    for text, finds in ((good, False), (good.replace("persist-", "keep-"), True)):
        file.write_text(text, encoding="utf-8")
        done = call(TOOLS / "zizmor", *quiet, file)
        assert (done.returncode > 0) == finds, done.stdout


def test_each_action_has_one_version_which_is_the_hash_of_a_commit() -> None:
    versions = dict(used_actions())
    assert len(versions) > 6
    assert {OURS} == {
        name
        for name, version in versions.items()
        if not re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version)
    }
    assert sorted(versions.items()) == sorted(set(used_actions()))


@pytest.mark.machine
@pytest.mark.parametrize("program", ["pre-commit", "prek"])
def test_the_hooks_of_the_page_are_those_of_the_repository(
    program: str, tmp_path: Path
) -> None:
    config = tmp_path / HOOKS
    config.write_text(recipes()[HOOKS], encoding="utf-8")
    manifest = ROOT / ".pre-commit-hooks.yaml"
    for words in (["validate-config", config], ["validate-manifest", manifest]):
        done = call(TOOLS / program, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    (source,) = yaml.safe_load(config.read_text(encoding="utf-8"))["repos"]
    hooks = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    assert [hook["id"] for hook in source["hooks"]] == [hook["id"] for hook in hooks]
