"""What is loaded by commands that people wait for although they have little to do."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.small import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab import Lab

pytestmark = pytest.mark.machine
# Each takes longer to load than all that such a command does with what it needs.
HEAVY = {
    "cryptography",
    "http.client",
    "jinja2",
    "multiprocessing",
    "provision.commands.build",
    "provision.doctor",
    "pypi_simple",
    "rattler",
    "requests",
    "tomlkit",
    "xml.etree.ElementTree",
    "yaml",
}
CODE = """
import sys
from provision.cli.main import main
code = main(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(code)
"""


def loaded(*words: str, root: Path) -> set[str]:
    """Run a command, and return the modules that it has loaded."""
    argv = [sys.executable, "-c", CODE, *words, "-C", str(root)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.split())


def test_a_build_with_nothing_to_do_loads_nothing_that_builds(lab: Lab) -> None:
    lab.build(smoke=False)
    assert {"provision.commands.build", "provision.doctor", "requests"} <= set(
        sys.modules
    )
    modules = loaded("build", TARGET, "--no-smoke", root=lab.project.root)
    assert not modules & HEAVY
    assert "pynvml" not in modules  # the target is for the CPU


def test_detect_loads_nothing_that_builds(lab: Lab) -> None:
    assert not loaded("detect", root=lab.project.root) & HEAVY


def test_explain_loads_nothing_that_locks_or_asks_an_index(lab: Lab) -> None:
    """It may take half a second, and what it loads is most of that."""
    modules = loaded("explain", "alpha", root=lab.project.root)
    assert not modules & (HEAVY - {"http.client", "multiprocessing"})
    assert "provision.resolver" not in modules
    assert "torch" not in modules
