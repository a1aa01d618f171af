"""The units that check again after a driver upgrade call what exists."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from provision.cli.main import parser

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "provision-smoke@.service"
TASK = ROOT / "deploy" / "provision-smoke.xml"
SPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def test_the_unit_s_command_is_one_of_ours() -> None:
    (line,) = (ln for ln in UNIT.read_text().splitlines() if ln.startswith("ExecStart="))
    program, *words = shlex.split(line.partition("=")[2].replace("%i", "arc-linux"))
    assert program.endswith("/.tools/bin/provision")
    arguments = parser().parse_args(words)
    assert (arguments.verb, arguments.target, arguments.if_driver_changed) == (
        "smoke",
        "arc-linux",
        True,
    )


def test_the_task_s_command_is_one_of_ours() -> None:
    task = ET.parse(TASK).getroot()
    (words,) = (element.text or "" for element in task.iter(f"{SPACE}Arguments"))
    arguments = parser().parse_args(words.split())
    assert (arguments.verb, arguments.target) == ("smoke", "arc-windows")
    assert (ROOT / "envs" / f"{arguments.target}.toml").is_file()


@pytest.mark.machine
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        reason = "systemd-analyze is not installed (Debian: systemd)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    program = Path(sys.executable)
    text = UNIT.read_text().replace("/opt/provision/.tools/bin/provision", str(program))
    text = text.replace("/opt/provision", str(ROOT)).replace("User=provision", "User=root")
    (tmp_path / "provision-smoke@.service").write_text(text)
    unit = str(tmp_path / "provision-smoke@arc-linux.service")
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True,
                          check=False)  # fmt: skip
    complaints = [line for line in done.stderr.splitlines() if "provision-smoke" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr
