"""``detect`` against the package torchruntime, which also names the GPUs of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness import Contestant, compare, interleave
from benchmarks.workbench import call

if TYPE_CHECKING:
    from benchmarks.harness import Row
    from benchmarks.workbench import Workbench

# What `torchruntime install` does before it calls pip.
_TORCHRUNTIME = """
from torchruntime.device_db import get_gpus
from torchruntime.platform_detection import get_torch_platform
gpus = get_gpus()
print(get_torch_platform(gpus), gpus)
"""


def rows(bench: Workbench) -> list[Row]:
    """Return the row of this machine."""
    by_torchruntime = [str(bench.tools), "-I", "-c", _TORCHRUNTIME]
    seconds = interleave(
        [
            Contestant("torchruntime", lambda: call(by_torchruntime)),
            Contestant("provision detect", lambda: call(bench.provision("detect"))),
        ],
        bench.rounds * 3,
    )
    return compare("this machine", seconds, "provision detect")
