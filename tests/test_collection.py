"""The ids of the tests depend on no clock, hash seed or folder: xdist compares them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT, copy_files

# Years later, for what reads the clock through any of these names.
CLOCK = """
import datetime
import time

SHIFT = 200_000_000
real = time.time
time.time = lambda: real() + SHIFT
time.time_ns = lambda: int((real() + SHIFT) * 1e9)

class Later(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=SHIFT)

datetime.datetime = Later
"""


@pytest.mark.machine
@pytest.mark.slow
def test_two_collections_find_the_same_tests(tmp_path: Path) -> None:
    (tmp_path / "other_clock.py").write_text(CLOCK, encoding="utf-8")
    copy = tmp_path / "a copy"
    copy_files(copy)
    base = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    argv += ["-p", "no:cacheprovider"]
    here = collecting(argv, ROOT, base | {"PYTHONHASHSEED": "1"})
    changed = {"PYTHONHASHSEED": "2", "PYTHONPATH": str(tmp_path), "TZ": "Asia/Tokyo"}
    there = collecting([*argv, "-p", "other_clock"], copy, base | changed)
    assert ids(here) == ids(there)


def collecting(
    argv: list[str], folder: Path, env: dict[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ids(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate()
    assert process.returncode == 0, output[-2000:]
    return [line for line in output.splitlines() if "::" in line]
