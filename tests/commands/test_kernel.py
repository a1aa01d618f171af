"""What a data scientist meets in an environment: its prompt, its pip, its Jupyter kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provision.cli import main
from provision.core.errors import Exit
from provision.core.prefix import scripts_folder
from provision.installer import uv as installer
from provision.installer.uv import remove_pip_shim
from provision.lockfile.pip import read_lock
from tests.small import TARGET, make_wheel

if TYPE_CHECKING:
    from tests.lab import Lab

pytestmark = pytest.mark.machine

LAUNCHER = """
import json, pathlib, sys
pathlib.Path(sys.argv[2]).write_text(json.dumps([sys.argv[1], sys.prefix]))
"""


def call(lab: Lab, *words: str) -> int:
    return main.main([words[0], TARGET, *words[1:], "--project", str(lab.project.root)])


def in_shell(lab: Lab, line: str) -> subprocess.CompletedProcess[str]:
    script = f"set -e; . {scripts_folder(lab.home / 'current') / 'activate'}; {line}"
    return subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.defpath},
    )


def test_the_prompt_names_the_target(lab: Lab) -> None:
    lab.build()
    assert in_shell(lab, 'echo "$VIRTUAL_ENV_PROMPT"').stdout.strip() == TARGET


@pytest.mark.parametrize("words", ["pip install einops", "pip3 list", "pip"])
def test_pip_installs_nowhere_and_says_what_does(lab: Lab, words: str) -> None:
    lab.build()
    done = in_shell(lab, words)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"provision add {TARGET} NAME" in done.stderr
    assert call(lab, "verify", "--deep") == Exit.OK


def test_a_locked_pip_stays(lab: Lab) -> None:
    entry = {
        "pip-26.0.dist-info/entry_points.txt": "[console_scripts]\npip = pip:main\n"
    }
    text = "def main(): print('the real one')\n"
    lab.relock(
        make_wheel(lab.index.root / "default", "pip", "26.0", {"pip.py": text, **entry})
    )
    lab.build()
    assert in_shell(lab, "pip").stdout.strip() == "the real one"
    assert not (scripts_folder(lab.home / "current") / "pip3").exists()


def test_on_windows_it_is_a_batch_file(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    (tmp_path / "Scripts").mkdir()
    installer.write_pip_shim(tmp_path, read_lock(lab.project.lock(TARGET)))
    lines = (tmp_path / "Scripts" / "pip.cmd").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("@echo off", "exit /b 1")
    assert all(line.startswith(">&2 echo ") for line in lines[1:-1])
    assert not any(
        set(line.removeprefix(">&2 ")) & set('&|<>^"%') for line in lines[1:-1]
    )


def test_a_kernel_follows_the_current_generation_and_survives_clean(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"ipykernel.py": "", "ipykernel_launcher.py": LAUNCHER}
    kernel = make_wheel(lab.index.root / "default", "ipykernel", "1.0", files)
    lab.relock(*lab.wheels, kernel)
    lab.build()
    assert (
        call(lab, "kernel", "--prefix", str(tmp_path / "jupyter"), "--json") == Exit.OK
    )
    result = json.loads(capsys.readouterr().out)["result"]
    assert Path(result["python"]) == scripts_folder(lab.home / "current") / "python"
    (file,) = tmp_path.glob("jupyter/share/jupyter/kernels/*/kernel.json")
    assert Path(result["kernel"]) == file
    spec = json.loads(file.read_text())
    assert TARGET in spec["display_name"]
    prefixes = []
    for extra in ([], [lab.wheel("gamma")]):
        lab.relock(*lab.wheels, *extra)
        lab.build()
        assert call(lab, "clean") == Exit.OK
        told = tmp_path / "connection"
        argv = [word.replace("{connection_file}", str(told)) for word in spec["argv"]]
        # As Jupyter starts it: elsewhere, and with variables of another environment.
        done = subprocess.run(
            argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": "/absent"}, check=False
        )
        assert done.returncode == 0
        prefixes.append(json.loads(told.read_text()))
    assert [option for option, _ in prefixes] == ["-f", "-f"]
    assert prefixes[0][1] != prefixes[1][1]
    assert Path(prefixes[1][1]).resolve() == (lab.home / "current").resolve()


@pytest.mark.parametrize("variable", ["JUPYTER_DATA_DIR", "XDG_DATA_HOME"])
def test_without_a_prefix_it_goes_where_jupyter_looks(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv("JUPYTER_DATA_DIR", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "data"))
    lab.relock(lab.wheel("ipykernel"))
    lab.build()
    assert call(lab, "kernel") == Exit.OK
    below = "" if variable == "JUPYTER_DATA_DIR" else "jupyter/"
    assert list(
        (tmp_path / "data").glob(f"{below}kernels/project-{TARGET}/kernel.json")
    )


def test_without_ipykernel_it_says_how_to_get_it(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(lab, "kernel") == Exit.USAGE
    assert "is not built" in capsys.readouterr().err
    lab.build()
    assert call(lab, "kernel") == Exit.USAGE
    assert f"provision add {TARGET} ipykernel" in capsys.readouterr().err


def test_only_the_explaining_pip_is_removed(lab: Lab) -> None:
    """An image keeps the pip that a conda layer brings."""
    built = lab.build().generation
    assert built is not None
    real = scripts_folder(built.folder) / "pip3.11"
    real.write_text("#!/bin/sh\n", encoding="utf-8")
    remove_pip_shim(built.folder)
    assert list(scripts_folder(built.folder).glob("pip*")) == [real]
