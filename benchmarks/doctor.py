"""The doctor on environments of many distributions and on long logs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from benchmarks.growth import series
from benchmarks.harness import Contestant
from benchmarks.workbench import PYTHON, UV, Workbench, call

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.harness import Row

DISTRIBUTIONS = (50, 500, 5000)
MEGABYTES = (1, 20, 200)
_TOOL = "provision doctor"
# What a training job prints for hours before it fails.
_PROGRESS = "epoch {0} step {1}: loss 0.{1:06d}, 12.5 it/s, memory 10.2 GiB\n"
_END = """Traceback (most recent call last):
  File "train.py", line 10, in <module>
    model.to("cuda")
RuntimeError: Found no NVIDIA driver on your system.
"""


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of both kinds of input."""
    return [*_distributions(bench), *_logs(bench)]


def _distributions(bench: Workbench) -> list[Row]:
    def contestants(size: int) -> list[Contestant]:
        python = str(_environment(bench.folder / f"doctor-{size}", size))
        doctor = bench.provision("doctor", "--python", python)
        check = [UV, "pip", "check", "--no-config", "--python", python]
        return [
            Contestant(_TOOL, lambda: call(doctor, accepted=(0, 1))),
            Contestant("uv pip check", lambda: call(check, accepted=(0, 1))),
        ]

    sizes = {size: contestants(size) for size in DISTRIBUTIONS}
    return series("distributions", "distributions", sizes, bench.rounds)


def _environment(prefix: Path, size: int) -> Path:
    """Make a virtual environment in which some distributions seem to be installed."""
    call([UV, "venv", "--no-config", "--python", PYTHON, str(prefix)])
    (site,) = prefix.glob("lib/python3.*/site-packages")
    for number in range(size):
        needs = f"Requires-Dist: generated-{number - 1}\n" if number else ""
        info = site / f"generated_{number}-1.0.dist-info"
        info.mkdir()
        metadata = (
            f"Metadata-Version: 2.1\nName: generated-{number}\nVersion: 1.0\n{needs}"
        )
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        (info / "INSTALLER").write_text("uv", encoding="utf-8")
        (site / f"generated_{number}.py").write_text("", encoding="utf-8")
        listed = (
            f"generated_{number}.py",
            *(f"{info.name}/{p.name}" for p in info.iterdir()),
        )
        record = "".join(f"{path},,\n" for path in (*listed, f"{info.name}/RECORD"))
        (info / "RECORD").write_text(record, encoding="utf-8")
    return prefix / "bin" / "python"


def _logs(bench: Workbench) -> list[Row]:
    def contestants(megabytes: int) -> list[Contestant]:
        log = _log(bench.folder / f"{megabytes}.log", megabytes * 1_000_000)
        doctor = bench.provision("doctor", "--log", str(log))
        return [
            Contestant(_TOOL, lambda: call(doctor, accepted=(0, 1))),
            Contestant(
                "grep for one text",
                lambda: call(["grep", "-c", "RuntimeError", str(log)]),
            ),
        ]

    sizes = {megabytes: contestants(megabytes) for megabytes in MEGABYTES}
    return series("megabytes of log", "MB", sizes, bench.rounds)


def _log(path: Path, size: int) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        for step in itertools.count():
            stream.write(_PROGRESS.format(step // 1000, step % 1_000_000))
            if step % 1000 == 0 and stream.tell() >= size:
                break
        stream.write(_END)
    return path
