"""Run the long tables of operators on the CPU as on a device that orders equal elements otherwise.

Run by an environment's Python. Writes the rows of which nothing was compared in float32.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from smoke.checks import test_operators
from smoke.engine import worker
from smoke.engine.check import Numbers
from smoke.engine.journal import Journal
from smoke.reference.tables import modules, options

ATEN = torch.ops.aten
# Which of equal elements these return first is not documented; the place of their dimension.
ORDERED = {
    ATEN.sort.default: 1,
    ATEN.topk.default: 2,
    ATEN.kthvalue.default: 2,
    ATEN.median.dim: 1,
    ATEN.nanmedian.dim: 1,
    ATEN.mode.default: 1,
}


class Last(TorchDispatchMode):
    """The last of equal elements is the first; reference results, in float64, stay as they are."""

    def __torch_dispatch__(
        self, run: Any, _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        unordered = run is ATEN.sort.stable and not kwargs.get("stable")
        place = 1 if unordered else ORDERED.get(run)
        if place is None or not args[0].dim() or args[0].dtype == torch.float64:
            return run(*args, **kwargs)
        dim = args[place] if len(args) > place else kwargs.get("dim", -1)
        values, indices = run(args[0].flip(dim), *args[1:], **kwargs)
        return values, args[0].shape[dim] - 1 - indices


class Titles(Numbers):
    """The measurements, and the titles of what was compared."""

    titles: set[str] = set()  # noqa: RUF012

    def step(self, words: str) -> None:
        self.titles.add(words)


def main(out: Path) -> None:
    """Write the rows that no variant of float32 reached, or that the CPU refused."""
    numbers = Titles(Journal(out.with_suffix(".jsonl")))
    with Last():
        for table in (options.CASES, modules.CASES):
            test_operators._compare(torch.device("cpu"), numbers, table, 0.0, made=True)
    refused = {name.removeprefix("not offered: ") for name in numbers.values}
    reached = {title.partition(" float32")[0] for title in numbers.titles - refused}
    rows = options.CASES | modules.CASES
    out.write_text(json.dumps(sorted(rows.keys() - reached)), encoding="utf-8")


if __name__ == "__main__":
    if (
        sys.argv[1] == "--call"
    ):  # a fresh process of the suite, which is this program again
        sys.exit(worker.main(sys.argv[1:]))
    main(Path(sys.argv[1]))
