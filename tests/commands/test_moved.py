"""A project that was moved, copied or linked; a clock that was wrong; reports that are damaged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provision.report.history import history, last_report
from tests.lab import typed
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.lab import Lab

pytestmark = pytest.mark.machine


def tool(
    lab: Lab, *words: str | Path, at: str | Path, cwd: Path | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a verb of the command line on a project at a path."""
    verb, *rest = words
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_INDEX_URL", f"{lab.index.url}/default/")
        if cwd:
            patch.chdir(cwd)
        if verb == "run":  # which becomes the program
            argv = [sys.executable, "-I", "-m", "provision", "run", "--project", at]
            done = subprocess.run(
                [*argv, *rest], capture_output=True, text=True, check=False
            )
        else:
            done = typed(verb, "--project", at, *rest)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def script(lab: Lab) -> Sequence[str]:
    """The words that run a console script of the environment."""
    entry = "[console_scripts]\nhello = alpha:hello\n"
    files = {
        "alpha.py": "version = '1.0'\ndef hello(): print('hello')\n",
        "alpha-1.0.dist-info/entry_points.txt": entry,
    }
    wheel = make_wheel(lab.index.root / "default", "alpha", "1.0", files)
    lab.relock(wheel, lab.wheels[1])
    return ("run", TARGET, "hello")


@pytest.mark.parametrize(
    ("how", "mend"),
    [("moved", ("build", TARGET)), ("copied", ("verify", TARGET, "--repair"))],
)
def test_attack_a_moved_folder(
    lab: Lab, tmp_path: Path, script: Sequence[str], how: str, mend: tuple[str, ...]
) -> None:
    root = lab.project.root
    tool(lab, "build", TARGET, at=root)
    tool(lab, "build", TARGET, at=root)  # notes that there is nothing to do
    assert tool(lab, *script, at=root).stdout == "hello\n"
    elsewhere = tmp_path / "elsewhere" / "project"
    elsewhere.parent.mkdir()
    if how == "moved":
        root.rename(elsewhere)
    else:
        shutil.copytree(root, elsewhere, symlinks=True)
    found = tool(lab, "verify", TARGET, "--json", at=elsewhere, code=1)
    (finding,) = json.loads(found.stdout)["result"]["findings"]
    assert finding["code"] == "moved-environment"
    assert str(root) in finding["symptom"]
    if how == "moved":
        tool(lab, *script, at=elsewhere, code=126)
    said = tool(lab, *mend, at=elsewhere).stderr
    assert f"was built at {root}" in said
    assert tool(lab, *script, at=elsewhere).stdout == "hello\n"
    assert "as locked" in tool(lab, "verify", TARGET, at=elsewhere).stdout
    assert "up to date" in tool(lab, "build", TARGET, at=elsewhere).stdout
    if how == "copied":
        assert "as locked" in tool(lab, "verify", TARGET, at=root).stdout


def test_attack_rollback_to_what_was_built_elsewhere(lab: Lab, tmp_path: Path) -> None:
    lab.build()
    elsewhere = tmp_path / "elsewhere"
    lab.project.root.rename(elsewhere)
    tool(lab, "build", TARGET, at=elsewhere)
    said = tool(lab, "rollback", TARGET, at=elsewhere, code=2).stderr
    assert "none that runs here was in use before" in said


def test_a_project_reached_by_a_link_was_not_moved(
    lab: Lab, tmp_path: Path, script: Sequence[str]
) -> None:
    link = tmp_path / "link"
    link.symlink_to(lab.project.root)
    tool(lab, "build", TARGET, at=link)
    for place in (link, lab.project.root):
        assert "up to date" in tool(lab, "build", TARGET, at=place).stdout
        assert "as locked" in tool(lab, "verify", TARGET, at=place).stdout
    link.unlink()  # which the scripts name; the last build noted that there is nothing to do
    tool(lab, "verify", TARGET, at=lab.project.root, code=1)
    tool(lab, "build", TARGET, at=lab.project.root)
    assert tool(lab, *script, at=lab.project.root).stdout == "hello\n"


def test_attack_a_relative_project_and_every_verb(lab: Lab, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    project = os.path.relpath(lab.project.root, here)
    assert project.startswith("..")
    for words in (
        ("build", TARGET),
        ("smoke", TARGET),
        ("smoke", TARGET, "--full"),
        ("verify", TARGET, "--deep"),
        ("run", TARGET, "python", "-c", "import alpha"),
        ("report", TARGET, "-o", "page.html"),
        ("targets",),
        ("lock", "--check"),
        ("sbom", TARGET),
        ("doctor", "--target", TARGET),
        ("clean",),
    ):
        tool(lab, *words, at=project, cwd=here)
    tool(lab, "build", TARGET, at=project, cwd=here)
    here.rename(
        tmp_path / "renamed"
    )  # nothing may depend on the folder it was called in
    assert "as locked" in tool(lab, "verify", TARGET, at=lab.project.root).stdout
    assert (tmp_path / "renamed" / "page.html").is_file()


def test_attack_a_report_of_the_future(lab: Lab) -> None:
    lab.build()
    (now,) = history(lab.project, TARGET)
    document = json.loads(now.read_text(encoding="utf-8")) | {"lock": "another"}
    future = now.with_name("20990101T000000000000Z-quick.json")
    future.write_text(json.dumps(document), encoding="utf-8")
    assert history(lab.project, TARGET) == [future, now]
    last = last_report(lab.project, TARGET)
    assert last is not None
    assert last.lock != "another"
    tool(lab, "smoke", TARGET, at=lab.project.root)
    said = tool(lab, "smoke", TARGET, "--if-driver-changed", at=lab.project.root).stdout
    assert "no driver, kernel, runtime or lock changed" in said
    tool(
        lab, "report", TARGET, "-o", lab.project.root / "page.html", at=lab.project.root
    )


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"schema": 99}'])
def test_attack_a_damaged_report_stops_nothing(lab: Lab, text: str) -> None:
    lab.build()
    (good,) = history(lab.project, TARGET)
    bad = good.with_name("20260101T000000000000Z-quick.json")
    later = good.parent / f"{good.name[:8]}T235959999999Z-quick.json"
    for path in (bad, later):
        path.write_text(text, encoding="utf-8")
    page = lab.project.root / "page.html"
    for words in (
        ("smoke", TARGET),
        ("smoke", TARGET, "--if-driver-changed"),
        ("report", TARGET, "-o", page),
        ("targets",),
    ):
        said = tool(lab, *words, at=lab.project.root).stderr
        assert "Traceback" not in said
        if words[0] == "report":
            assert f"left out {bad}: " in said
    assert page.is_file()
