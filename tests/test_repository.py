"""What others' services read of this repository: forms, hooks, workflows, the citation."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from check_jsonschema.cli import main as judge
from click.testing import CliRunner

from tests.checkout import commit_all, commit_copy, git
from tests.recipes import HOOKS, filled_in
from tests.small import lock, make_project, make_wheel, serve
from tests.test_docs import unknown

ROOT = Path(__file__).parents[1]
SCHEMAS = {
    "action.yml": "vendor.github-actions",
    "docker/compose.yaml": "vendor.compose-spec",
    "CITATION.cff": "vendor.citation-file-format",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
    ".github/ISSUE_TEMPLATE/[0-9]*.yml": "vendor.github-issue-forms",
    ".github/workflows/*.yml": "vendor.github-workflows",
}
FORMATS = ROOT / "provision" / "doctor" / "formats.toml"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))


def judged(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_file_is_what_its_reader_expects() -> None:
    for pattern, schema in SCHEMAS.items():
        files = list(map(str, ROOT.glob(pattern)))
        assert files
        done = CliRunner().invoke(judge, ["--builtin-schema", schema, *files])
        assert done.exit_code == 0, done.output


def zizmor(*paths: str | Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("zizmor")
    return judged(
        tool,
        "--offline",
        "--quiet",
        "--no-progress",
        "--strict-collection",
        "--persona=pedantic",
        "--collect=all",
        *paths,
    )


@pytest.mark.machine
def test_workflows_and_the_action_have_none_of_the_known_weaknesses(
    tmp_path: Path,
) -> None:
    done = zizmor("action.yml", ".github", ".pre-commit-hooks.yaml")
    assert done.returncode == 0, done.stdout
    weak = tmp_path / "action.yml"
    good = (ROOT / "action.yml").read_text(encoding="utf-8")
    for old, new in (
        ('"$TARGET" = auto', '"${{ inputs.target }}" = auto'),
        ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7"),
    ):
        assert old in good
        weak.write_text(good.replace(old, new), encoding="utf-8")
        assert zizmor(weak).returncode != 0


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_the_commands_of_a_form_exist(form: Path) -> None:
    text = form.read_text(encoding="utf-8")
    for line in re.findall(r"`([^`]+)`", text):
        assert unknown(line) == []
    assert re.search(r"`provision doctor [^`]*--report`", text)
    body = yaml.safe_load(text)["body"]
    targets = sorted(path.stem for path in (ROOT / "envs").glob("*.toml"))
    for part in body:
        if part.get("id") == "target":
            assert part["attributes"]["options"][1:] == targets


def run_hooks(program: str, clone: Path, *files: str) -> tuple[int, list[str], str]:
    """Run the hooks on some files; return the exit code, each outcome, and what was printed."""
    bin_folder = Path(sys.executable).parent
    own = {
        "PREK_HOME": str(clone.with_name("prek")),
        "PRE_COMMIT_HOME": str(clone.with_name("pre-commit")),
        "NO_COLOR": "1",
        "PATH": os.pathsep.join([str(bin_folder), os.environ["PATH"]]),
    }
    git(clone, "add", "--all")
    done = subprocess.run(
        [bin_folder / program, "run", "--files", *files],
        cwd=clone,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = re.findall(
        r"^provision .*(Passed|Failed|Skipped)$", done.stdout, re.MULTILINE
    )
    return done.returncode, outcomes, done.stdout + done.stderr


def test_the_hooks_run_for_each_file_that_they_read() -> None:
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    of_lock, of_doctor = manifest
    assert "files" not in of_lock, "a spec may refer to files of any name"
    reads = re.compile(of_doctor["files"]).search
    for pattern in tomllib.loads(FORMATS.read_text("utf-8"))["file"]:
        name = pattern.replace("*", "")
        assert reads(name), name
        assert reads(f"sub/{name}"), name
    assert not reads("environment.yml"), "which the doctor does not examine"


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("program", ["pre-commit", "prek"])
def test_the_hooks_stop_a_commit_whose_lock_is_stale_or_whose_requirements_clash(
    program: str, tmp_path: Path
) -> None:
    """With the configuration that the page shows, by both programs that it names."""
    ours, theirs = tmp_path / "provision", tmp_path / "theirs"
    commit_copy(ours)
    with serve(tmp_path / "index") as index:
        project = make_project(theirs, index)
        wheel = make_wheel(index.root / "default", "alpha", "1.0", {"alpha.py": ""})
        lock(project, [wheel])
    (theirs / HOOKS).write_text(filled_in(HOOKS, ours), encoding="utf-8")
    commit_all(theirs)

    run = functools.partial(run_hooks, program, theirs)
    code, outcomes, text = run("envs/tiny.toml")
    assert code == 0, text
    assert outcomes == ["Passed", "Skipped"], text
    assert run("smoke/run.py")[1] == ["Passed", "Skipped"]
    spec = project.specs / "tiny.toml"
    spec.write_text(spec.read_text().replace('["alpha"]', '["alpha", "gamma"]'))
    (theirs / "requirements.txt").write_text("torch==2.9.0\ntorchvision==0.20.0\n")
    code, outcomes, text = run("envs/tiny.toml", "requirements.txt")
    assert code == 1, text
    assert outcomes == ["Failed", "Failed"], text
    assert "changed" in text
    assert "torchvision" in text
