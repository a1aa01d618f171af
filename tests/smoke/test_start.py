"""Code that runs at the start of Python: the suite runs in a real environment that has some."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from provision.core.process import clean_environment, run
from tests.smoke.conftest import SUITE, linked_environment

if TYPE_CHECKING:
    from pathlib import Path

HIJACK = """
import sys
class Finder:
    def find_spec(self, *_args):
        return None
sys.meta_path.insert(0, Finder())
"""


# A package of the system, which a .pth file of the environment names.
SYSTEM = {
    "other/__init__.py": "",
    "other-1.0.dist-info/METADATA": "Name: other\nVersion: 1.0\n",
    "other-1.0.dist-info/RECORD": "other/__init__.py,,\n",
}


@pytest.mark.machine
def test_code_of_no_distribution_is_named(
    python: Path, sound: Path, tmp_path: Path
) -> None:
    own = linked_environment(python, tmp_path / "env")
    (site,) = (tmp_path / "env").glob("lib/python3.*/site-packages")
    for name, text in SYSTEM.items():
        path = tmp_path / "dist-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (site / "system.pth").write_text(f"{tmp_path / 'dist-packages'}\n")
    assert _evidence(own, sound, tmp_path) == []
    (site / "sitecustomize.py").write_text(HIJACK)
    (site / "cuda_to_xpu.pth").write_text("import sys; sys.mapped = True\n")
    first, second, third = _evidence(own, sound, tmp_path)
    assert "Finder" in first
    assert f"sitecustomize of {site / 'sitecustomize.py'}" in second
    assert third == "cuda_to_xpu.pth runs import sys; sys.mapped = True"


def _evidence(python: Path, expect: Path, folder: Path) -> list[str]:
    report = folder / "report.json"
    words = [python, "-I", SUITE, expect, report, "--only", "identity.code"]
    done = run(words, env=clean_environment(), cwd=folder, timeout=200)
    (check,) = (
        each
        for each in json.loads(report.read_text(encoding="utf-8"))["checks"]
        if each["id"] == "identity.code"
    )
    assert done.returncode == (1 if check["finding"] else 0)
    return check["finding"]["evidence"] if check["finding"] else []
