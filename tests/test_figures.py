"""How long the command takes, whole processes and the real cpu-linux; the best of some, as machines
are shared. What is compared with another tool is measured in the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.machine
ROOT = Path(__file__).parents[1]
BOUNDS = {
    ("detect",): 0.3,
    ("build", "cpu-linux"): 0.6,  # there is nothing to do
    ("verify", "cpu-linux"): 0.5,
    ("lock", "--check"): 1.0,
}


def best(times: int, work: Callable[[], object]) -> float:
    """Return the seconds of the quickest of some rounds."""

    def one() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return min(one() for _ in range(times))


def provision(*words: str) -> None:
    command = [sys.executable, "-I", "-m", "provision", *words, "--project", str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize("words", BOUNDS, ids="-".join)
def test_it_answers_at_once(words: tuple[str, ...]) -> None:
    assert best(5, lambda: provision(*words)) <= BOUNDS[words]


def test_every_hash_is_compared_at_least_0_6_times_as_fast_as_sha256sum(python: Path) -> None:
    site = next(python.parents[1].glob("lib/python3.*/site-packages"))
    files = "\0".join(str(path) for path in site.rglob("*") if path.is_file())
    command = ["xargs", "-0", "-n", "500", "-P", str(os.cpu_count()), "sha256sum"]

    def by_sha256sum() -> None:
        subprocess.run(command, input=files.encode(), check=True, stdout=subprocess.DEVNULL)

    theirs = best(3, by_sha256sum)
    ours = best(3, lambda: provision("verify", "cpu-linux", "--deep"))
    assert theirs / ours >= 0.6, f"sha256sum {theirs:.1f} s, verify --deep {ours:.1f} s"
