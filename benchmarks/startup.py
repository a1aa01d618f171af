"""The time until the command answers, against starting Python and against starting uv."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.workbench import PROVISION, TARGET, UV, Workbench, call

if TYPE_CHECKING:
    from collections.abc import Sequence

_PYTHON, _UV = "python -c pass", "uv --version"


def rows(bench: Workbench) -> list[Row]:
    """Return the rows of the verbs that people wait for."""
    bench.proven()
    commands: dict[str, Sequence[str]] = {
        _PYTHON: [sys.executable, "-I", "-c", "pass"],
        _UV: [UV, "--version"],
        "provision --help": [*PROVISION, "--help"],
        "nothing to do": bench.provision("build", TARGET),
        "targets": bench.provision("targets"),
    }
    contestants = [
        Contestant(name, lambda command=command: call(command))  # type: ignore[misc]
        for name, command in commands.items()
    ]
    # Each takes a fraction of a second, so more rounds cost little and settle the median.
    seconds = interleave(contestants, bench.rounds * 3)
    return [
        row
        for name in list(commands)[2:]
        for row in compare(
            name, {key: seconds[key] for key in (name, _PYTHON, _UV)}, name
        )
    ]
