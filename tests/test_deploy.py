"""The units that check again after a driver upgrade call what exists."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from provision.cli.main import parser
from provision.core.platforms import PLATFORMS
from provision.spec.reader import load_target

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "provision-smoke@.service"
DAEMON = ROOT / "deploy" / "provision-smoke.plist"
TASK = ROOT / "deploy" / "provision-smoke.xml"
SPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def test_the_unit_s_command_is_one_of_ours() -> None:
    (line,) = (
        ln for ln in UNIT.read_text().splitlines() if ln.startswith("ExecStart=")
    )
    program, *words = shlex.split(line.partition("=")[2].replace("%i", "arc-linux"))
    assert program.endswith("/.tools/bin/provision")
    arguments = parser().parse_args(words)
    assert arguments.verb == "smoke"
    assert arguments.target == "arc-linux"
    assert arguments.if_driver_changed is True


def test_the_task_s_command_is_one_of_ours() -> None:
    task = ET.parse(TASK).getroot()
    (words,) = (element.text or "" for element in task.iter(f"{SPACE}Arguments"))
    arguments = parser().parse_args(words.split())
    assert arguments.verb == "smoke"
    assert arguments.target == "arc-windows"
    assert (ROOT / "envs" / f"{arguments.target}.toml").is_file()


def test_the_daemon_s_command_is_one_of_ours() -> None:
    daemon = plistlib.loads(DAEMON.read_bytes())
    # launchd.plist(5): keys that it does not know, it ignores.
    assert daemon.keys() <= {
        "Label",
        "UserName",
        "WorkingDirectory",
        "StandardOutPath",
        "StandardErrorPath",
        "ProgramArguments",
        "RunAtLoad",
        "Nice",
    }
    assert daemon["RunAtLoad"] is True
    program, *words = daemon["ProgramArguments"]
    assert program == f"{daemon['WorkingDirectory']}/.tools/bin/provision"
    arguments = parser().parse_args(words)
    assert arguments.verb == "smoke"
    assert arguments.full is True
    assert arguments.if_driver_changed is True
    target = load_target(ROOT / "envs", arguments.target)
    assert PLATFORMS[target.platform].system == "macos"


def test_the_installing_line_fits_the_daemon() -> None:
    """What the file and the page say to type changes each place that it has to."""
    text = DAEMON.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "driver-upgrade.md").read_text(encoding="utf-8")
    first, second = re.search(
        r'sed "s\|(.+?)\|\$PWD\|g; s\|(.+?)\|>\$USER<\|"', text
    ).groups()  # type: ignore[union-attr]
    assert f's|{first}|$PWD|g; s|{second}|>$USER<|"' in page
    lines = (
        line.replace(first, "/Users/me").replace(second, ">me<")
        for line in text.splitlines()
    )
    daemon = plistlib.loads("\n".join(lines).encode())
    assert daemon["UserName"] == "me"
    assert daemon["WorkingDirectory"] == "/Users/me"
    for value in daemon.values():
        assert "/opt/" not in str(value)


@pytest.mark.machine
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        reason = "systemd-analyze is not installed (Debian: systemd)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    program = Path(sys.executable)
    text = UNIT.read_text().replace("/opt/provision/.tools/bin/provision", str(program))
    text = text.replace("/opt/provision", str(ROOT)).replace(
        "User=provision", "User=root"
    )
    (tmp_path / "provision-smoke@.service").write_text(text)
    unit = str(tmp_path / "provision-smoke@arc-linux.service")
    done = subprocess.run(
        [analyze, "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [
        line for line in done.stderr.splitlines() if "provision-smoke" in line
    ]
    assert (done.returncode, complaints) == (0, []), done.stderr
