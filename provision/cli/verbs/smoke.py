"""run the checks, compare with the last good report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, findings_if
from provision.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.report.regressions import SmokeResult, SmokeSkipped
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target, the suite, and the environment to check."""
    parser.add_argument("target")
    suites = parser.add_mutually_exclusive_group()
    suites.add_argument("--quick", action="store_true", help="what gates a build; the default")
    suites.add_argument("--full", action="store_true", help="all checks: minutes")
    subjects = parser.add_mutually_exclusive_group()
    subjects.add_argument(
        "--if-driver-changed", action="store_true",
        help="only where driver, kernel, runtime or lock differ from the last report",
    )  # fmt: skip
    subjects.add_argument(
        "--against", type=Path, metavar="PYTHON", help="check another environment; keeps no report"
    )
    parser.add_argument(
        "--device", default="", metavar="N",
        help="the device of this number, as torch counts, or `all`; all is the default of --full",
    )  # fmt: skip
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML as well")


def _device(word: str) -> str:
    if word not in ("", "all") and not word.isdecimal():
        raise UsageError(f"--device {word}: neither a number nor `all`")
    return word


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[SmokeResult] | Outcome[SmokeSkipped]:
    """Run the checks in the current generation or in another environment."""
    from provision.commands.machine import read_layers
    from provision.commands.prove import SmokeRequest, prove, prove_interpreter, unchanged
    from provision.core.process import run
    from provision.spec.reader import load_target
    from provision.ui.smoke import show_skipped, show_smoke

    target = load_target(project.specs, arguments.target)
    device = _device(arguments.device)
    request = SmokeRequest(
        project,
        target,
        read_layers(project),
        full=arguments.full,
        device=device,
        junit=arguments.junit,
    )
    console.step(f"the {'full' if arguments.full else 'quick'} checks of {target.name}")
    if arguments.against:
        result = prove_interpreter(request, arguments.against, run)
    elif arguments.if_driver_changed and (skipped := unchanged(request, console)):
        return Outcome(skipped, show_skipped, findings_if(skipped.failed))
    else:
        result = prove(request, run, console)
    bad = not result.report.proves or (result.comparison and result.comparison.bad)
    return Outcome(result, show_smoke, findings_if(bad))
