"""Show this machine and the targets that fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.detect import Detection
    from provision.ui.console import Console


def show_detection(result: Detection, console: Console) -> None:
    """Print the host, its GPUs, and each target with the reasons."""
    host = result.host
    around = f" in {', '.join(host.surroundings)}" if host.surroundings else ""
    console.line(f"{host.platform}, kernel {host.kernel}{around}", "bold")
    for gpu in host.gpus:
        driver = (
            f"driver {gpu.driver.name} {gpu.driver.version or ''}" if gpu.driver else "no driver"
        )
        console.line(f"  {gpu.name} at {gpu.address}, {driver}")
    if not host.gpus:
        console.line("  no GPU")
    for name, variable in result.hidden:
        console.note(f"{name} is hidden by {variable}")
    for fit in result.fits:
        chosen = fit.target == result.chosen
        style = {"fits": "green", "blocked": "yellow", "no": "dim"}[fit.verdict]
        mark = "->" if chosen else "  "
        reasons = "; ".join(fit.reasons)
        console.line(f"{mark} {fit.target:<20} {fit.verdict:<8} {reasons}", style)
    for advice in result.advice:
        console.note(advice)
