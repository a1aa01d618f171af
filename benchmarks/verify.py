"""``verify --deep`` against ``sha256sum`` of the same files in as many processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, Row, compare, interleave
from benchmarks.workbench import TARGET, Workbench, call

if TYPE_CHECKING:
    from pathlib import Path


def rows(bench: Workbench) -> list[Row]:
    """Return the row of the built cpu-linux."""
    prefix = bench.built()
    verify = bench.provision("verify", TARGET, "--deep")
    seconds = interleave(
        [
            Contestant("sha256sum", lambda: sha256sum(prefix)),
            Contestant("provision verify --deep", lambda: call(verify)),
        ],
        bench.rounds,
    )
    return compare("every file hashed", seconds, "provision verify --deep")


def sha256sum(prefix: Path) -> None:
    """Hash every file of an environment, with one process per core."""
    site = next(prefix.glob("lib/python3.*/site-packages"))
    files = b"\0".join(os.fsencode(path) for path in site.rglob("*") if path.is_file())
    call(
        ["xargs", "-0", "-n", "500", "-P", str(os.cpu_count()), "sha256sum"],
        stdin=files,
    )
