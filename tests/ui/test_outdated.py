"""What is newer than the locks of many targets, each package and each reason once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.commands.outdated import Newer, Outdated, Vulnerability
from provision.core.errors import ToolError
from provision.ui.console import Console
from provision.ui.outdated import show_outdated

if TYPE_CHECKING:
    import pytest

TORCH = Newer("torch", "2.9", "2.13", "1970-01-01", "pytorch-xpu", "torch==2.9")
NUMPY = Newer("numpy", "2.1", "2.2", "2026-11-01", "default", "numpy")
BAD = Vulnerability("numpy", "2.1", "CVE-1", (), ("2.2",), "open", "")
ABSENT = "pip-audit is not installed beside provision: `uv pip install pip-audit`"


def shown(capsys: pytest.CaptureFixture[str], *results: Outdated) -> list[str]:
    show_outdated([*results], Console("provision"))
    return capsys.readouterr().out.splitlines()


def test_a_package_is_one_row_with_its_targets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown(
        capsys,
        Outdated("arc-linux", (TORCH, NUMPY)),
        Outdated("cpu-linux", (NUMPY,)),
        Outdated("cuda-linux", ()),
        Outdated("max-linux", (TORCH,)),
        Outdated("broken", error=ToolError("no index answers")),
    )
    rows = [line.split() for line in lines[1:3]]
    assert rows == [
        ["numpy", "2.1", "2.2", "2026-11-01", "numpy", "arc-linux,", "cpu-linux"],
        ["torch", "2.9", "2.13", "torch==2.9", "arc-linux,", "max-linux"],
    ]
    assert lines[3:] == [
        "nothing is newer for cuda-linux",
        "no known vulnerability: arc-linux, cpu-linux, cuda-linux, max-linux",
    ]


def test_a_reason_and_a_vulnerability_are_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = [Outdated(name, not_looked_up=ABSENT) for name in ("a", "b", "c")]
    known = [Outdated(name, vulnerabilities=(BAD,)) for name in ("d", "e")]
    lines = shown(capsys, *absent, *known)
    assert lines == [
        f"known vulnerabilities of 3 targets: not looked up ({ABSENT})",
        "open CVE-1: numpy 2.1, fixed in 2.2 (d, e)",
    ]
