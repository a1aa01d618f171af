"""Only what drifted is fetched again, and never from a damaged cache."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from provision.artifacts.pip_config import PipConfig
from provision.cli.main import main
from provision.commands.generations import EDITED
from provision.commands.repair import repair
from provision.commands.verify import verify_current
from provision.core.errors import ToolError
from provision.core.filesystem import make_tagged
from provision.core.process import run
from tests.small import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from provision.environment.verification import Verification
    from tests.lab import Lab

pytestmark = pytest.mark.machine


def look(lab: Lab) -> Verification:
    return verify_current(lab.project, TARGET, deep=True)


def poison(lab: Lab) -> None:
    """Edit a file of the environment; uv's cache shares it, so the cache is edited too."""
    (module,) = (lab.home / "current").resolve().rglob("alpha.py")
    module.write_text("version = 'poisoned'\n", encoding="utf-8")


def test_a_poisoned_file_is_fetched_again_and_nothing_else_is(lab: Lab) -> None:
    first = lab.build().generation
    poison(lab)
    found = look(lab)
    assert found.drifted == ("alpha",)
    lab.index.asked.clear()
    built = repair(found, lab.order(), run, lab.listener)
    assert built.generation is not None
    assert first is not None
    assert lab.left() == sorted([built.generation.folder.name, "current"])
    assert built.generation.folder != first.folder
    assert lab.says("import alpha; print(alpha.version)") == "1.0"
    assert look(lab).findings == ()
    fetched = [path for path in lab.index.asked if path.endswith(".whl")]
    assert fetched == ["/default/alpha-1.0-py3-none-any.whl"]


def test_what_shares_the_edited_file_is_told_and_what_is_replaced_is_not(
    lab: Lab,
) -> None:
    earlier = lab.build().generation
    lab.relock(*lab.wheels, lab.wheel("gamma"))
    lab.build()
    poison(lab)  # both have it by a link
    assert earlier is not None
    lab.listener.notes.clear()
    repair(look(lab), lab.order(), run, lab.listener)
    assert lab.listener.notes == [
        f"the earlier environment {earlier.folder.name} is unproven now: {EDITED}"
    ]


def test_what_cannot_be_fetched_again_leaves_everything(lab: Lab) -> None:
    lab.build()
    poison(lab)
    before = lab.left()
    lab.index.fault = 403
    with pytest.raises(ToolError):
        repair(look(lab), lab.order(), run, lab.listener)
    assert lab.left() == before
    assert lab.says("import beta; print('works')") == "works"


def test_a_repair_does_not_advise_itself(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{lab.index.url}/default/")
    lab.build()
    poison(lab)
    argv = ["verify", TARGET, "--project", str(lab.project.root)]
    assert main([*argv, "--deep"]) == 1
    assert f"verify {TARGET} --repair" in capsys.readouterr().out
    assert main([*argv, "--repair", "--no-smoke"]) == 0
    shown = capsys.readouterr().out
    assert "[" in shown.splitlines()[0], "what is repaired is said"
    assert "--repair" not in shown
    assert shown.splitlines()[-1] == (
        f"repaired: {TARGET}, alpha replaced, 12 files as locked, "
        "not proven: the checks were left out"
    )


def test_a_repair_prints_one_error_and_at_its_end_what_it_did(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{lab.index.url}/default/")
    lab.build()
    poison(lab)
    current = (lab.home / "current").resolve()
    (module,) = current.rglob("beta.py")
    module.unlink()
    (current / "bin" / "added").write_text("x", encoding="utf-8")
    capsys.readouterr()
    argv = ["verify", TARGET, "--project", str(lab.project.root), "--repair"]
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert out.count("error:") == 1
    assert out.startswith(
        "error: 3 differences from the lock [changed-file, changed-prefix]\n"
    )
    for name in ("alpha.py", "beta.py", "bin/added"):
        assert name in out.partition("cause:")[0]
    assert "remedy:" not in out
    last = (
        f"repaired: {TARGET}, alpha, beta replaced, 12 files as locked, checks passed"
    )
    assert out.splitlines()[-1] == last
    assert "· all quick checks run: the environment was repaired" in err.splitlines()
    # Of what cannot be installed, it says no such thing.
    poison(lab)
    suite = lab.project.smoke / "run.py"
    text = suite.read_text(encoding="utf-8")
    suite.write_text(text.replace('find_spec("broken") is not', "find_spec is not"))
    assert main(argv) == 1
    out, _ = capsys.readouterr()
    assert "repaired:" not in out
    assert "the checks failed, and the environment stays as it was" in out


def test_what_a_killed_repair_left_is_removed_though_nothing_drifted(lab: Lab) -> None:
    lab.build()
    before = lab.left()
    make_tagged(lab.home / ".removing-1-old")
    verb = ["verify", TARGET, "--project", str(lab.project.root)]
    assert main(verb) == 0
    assert lab.left() != before
    assert main([*verb, "--repair"]) == 0
    assert lab.left() == before


def _site(lab: Lab) -> Path:
    return next((lab.home / "current").resolve().rglob("alpha.py")).parent


DAMAGES = {
    "changed-file": lambda lab: (_site(lab) / "alpha.py").write_text("pass\n"),
    "half-installed-package": lambda lab: (
        _site(lab) / "alpha-1.0.dist-info/RECORD"
    ).unlink(),
    "unrecorded-file": lambda lab: (_site(lab) / "theirs.py").write_text("pass\n"),
    "missing-package": lambda lab: shutil.rmtree(_site(lab) / "alpha-1.0.dist-info"),
    "unsealed": lambda lab: shutil.rmtree(lab.home / ".seals"),
    "changed-prefix": lambda lab: (_site(lab).parents[2] / "bin/theirs").touch(),
    "older-lock": lambda lab: lab.relock(lab.wheels[0]),
}


def test_the_command_that_a_finding_names_mends_it(
    lab: Lab,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab.build()
    monkeypatch.setattr(
        "provision.commands.request.read_pip_config",
        lambda: PipConfig(index_url=f"{lab.index.url}/default/", wheelhouses=()),
    )
    root = str(lab.project.root)
    argv = ["verify", TARGET, "--deep", "--json", "--project", root]
    for code, damage in DAMAGES.items():
        damage(lab)
        capsys.readouterr()
        assert main(argv) == 1
        findings = json.loads(capsys.readouterr().out)["result"]["findings"]
        (remedy,) = [f["remedy"] for f in findings if f["code"] == code]
        command = re.search("`provision ([^`]+)`", remedy)
        assert command
        words = command[1].split()
        assert TARGET in words
        assert main([*words, "--project", root]) == 0
        assert main(argv) == 0, code
