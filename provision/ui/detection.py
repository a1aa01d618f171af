"""The view of a machine, and of which targets fit it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provision.core.text import plural
from provision.ui.console import Console

if TYPE_CHECKING:
    from provision.commands.detect import Detection

_FITS = {"fits": "green", "blocked": "yellow", "no": "dim"}


def show_choice(result: Detection, console: Console) -> None:
    """Print the machine, and the targets that a build may choose from."""
    possible = result.fits
    if result.chosen and not console.detailed:
        possible = tuple(fit for fit in result.fits if fit.verdict != "no")
    show_detection(replace(result, fits=possible), console)
    others = len(result.fits) - len(possible)
    if others:
        why = f"`{console.program} detect` says why"
        console.line(f"{plural(others, 'target')} for other machines: {why}", "dim")


def show_detection(result: Detection, console: Console) -> None:
    """Print the host, its GPUs, and each target with the reasons."""
    host = result.host
    where = f"{host.platform}, kernel {host.kernel}"
    if host.surroundings:
        where += f" in {', '.join(host.surroundings)}"
    console.line(where, "bold")
    for gpu in host.gpus:
        driver = "no driver"
        if gpu.driver:
            driver = f"driver {gpu.driver.name} {gpu.driver.version or ''}"
        console.line(f"  {gpu.name} at {gpu.address}, {driver}")
    if not host.gpus:
        console.line("  no GPU")
    for name, variable in result.hidden:
        console.remark(f"{name} is hidden by {variable}")
    rows, styles = [], []
    for fit in result.fits:
        mark = "->" if fit.target == result.chosen else "  "
        rows.append((f"{mark} {fit.target}", fit.verdict, "; ".join(fit.reasons)))
        styles.append(_FITS[fit.verdict])
    console.table(("   target", "verdict", "why"), rows, *styles)
    for advice in result.advice:
        console.remark(advice)
