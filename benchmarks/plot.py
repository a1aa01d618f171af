"""Draw ``docs/benchmarks.svg`` from the results; runs where matplotlib is installed.

python -m benchmarks.plot
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.results import Results, read_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT = Path(__file__).parents[1] / "docs" / "benchmarks.svg"
_ITSELF = "itself with "


def main() -> None:
    """Write the plot; the same results give the same bytes."""
    # Text stays text, and the ids do not depend on the time, so that a change shows in a diff.
    mpl.rcParams.update(
        {"svg.hashsalt": "provision", "svg.fonttype": "none", "font.size": 9}
    )
    figure = Figure(figsize=(11, 8), layout="constrained")
    ratios, growth = figure.subplots(1, 2)
    results = read_results()
    draw_ratios(ratios, results)
    draw_growth(growth, results)
    figure.savefig(PLOT, metadata={"Date": None})


def draw_ratios(axes: Axes, results: Results) -> None:
    """Draw the ratio of every comparison with another tool, with its spread."""
    chosen = [
        (f"{subject}: {row.case} / {row.against}", row)
        for subject, (_, rows) in sorted(results.items(), reverse=True)
        for row in reversed(rows)
        if row.size is None
    ]
    ratios = [row.ratio for _, row in chosen]
    spread = [
        [row.ratio - row.low for _, row in chosen],
        [row.high - row.ratio for _, row in chosen],
    ]
    axes.barh(
        [label for label, _ in chosen], ratios, xerr=spread, color="tab:blue", alpha=0.7
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("times as long as the other tool")


def draw_growth(axes: Axes, results: Results) -> None:
    """Draw how the time of each series grows, beside linear growth."""
    for subject, (_, rows) in sorted(results.items()):
        for case in dict.fromkeys(
            row.case for row in rows if row.against.startswith(_ITSELF)
        ):
            series = [
                row
                for row in rows
                if row.case == case and row.against.startswith(_ITSELF)
            ]
            smallest = int(series[0].against.removeprefix(_ITSELF).split()[0])
            factors = [1.0, *(row.size / smallest for row in series if row.size)]
            times = [1.0, *(row.ratio for row in series)]
            axes.plot(factors, times, marker="o", label=f"{subject}: {case}")
    limit = axes.get_xlim()[1]
    axes.plot([1, limit], [1, limit], "k--", linewidth=0.8, label="linear")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("size of the input, smallest = 1")
    axes.set_ylabel("time, smallest = 1")
    axes.legend()


if __name__ == "__main__":
    main()
