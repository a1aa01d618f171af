"""Time a build against what it is made of: bare uv, and pip; ratios, from one run.

``nox -s bench`` runs it. Everything comes from warm caches, so that the disk and the processor are
measured, not the network. Each round runs every command once, and the median of the rounds counts;
pip, which takes a minute and more, runs once.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from provision.artifacts.pip_config import read_pip_config
from provision.installer import uv

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "lockfiles" / "cpu-linux" / "requirements.txt"
ROUNDS = 3


def timed(*commands: list[str]) -> float:
    """Return how many seconds some commands take, one after the other."""
    started = time.monotonic()
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    """Run the rounds and print a line per figure."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        print(report(rounds(Path(folder))))


def rounds(folder: Path) -> dict[str, list[float]]:
    """Return the seconds of each command in each round, after one that is not counted."""
    project = folder / "project"
    for part in ("envs", "lockfiles", "smoke"):
        shutil.copytree(ROOT / part, project / part)
    found: dict[str, list[float]] = {}
    for number in range(ROUNDS + 1):
        for name, seconds in one_round(folder, project).items():
            if number:
                found.setdefault(name, []).append(seconds)
    return found | {"bare pip": [by_pip(folder)]}


def one_round(folder: Path, project: Path) -> dict[str, float]:
    """Run every command once, from nothing."""
    program, python = uv.uv_program(), uv.interpreter("3.11")
    links = [
        word for house in read_pip_config().wheelhouses for word in ("--find-links", str(house))
    ]
    built = [sys.executable, "-I", "-m", "provision", "build", "cpu-linux", "--no-smoke"]
    by_uv = folder / "uv"
    locked = ["--no-deps", "--require-hashes", "-r", str(LOCK), *links]
    for old in (by_uv, project / ".envs"):
        shutil.rmtree(old, ignore_errors=True)
    return {
        "bare uv": timed(
            [program, "venv", "--no-config", "--python", python, str(by_uv)],
            [program, "pip", "install", "--no-config", "--python", str(by_uv), *locked],
        ),
        "provision build": timed([*built, "--project", str(project)]),
        "nothing to do": timed([*built, "--project", str(project)]),
    }


def by_pip(folder: Path) -> float:
    """Return how many seconds venv and pip take for the same lock."""
    made = folder / "pip"
    return timed(
        [uv.interpreter("3.11"), "-m", "venv", str(made)],
        [str(made / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--require-hashes",
         "-r", str(LOCK)],
    )  # fmt: skip


def report(found: dict[str, list[float]]) -> str:
    """Return the medians, and their ratios to a build."""
    middle = {name: statistics.median(values) for name, values in found.items()}
    ours = middle["provision build"]
    return "\n".join(
        f"{name:<16} {value:7.2f} s   build / this = {ours / value:6.2f}"
        for name, value in middle.items()
    )


if __name__ == "__main__":
    main()
