"""run the checks, compare with the last good report."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, add_contract, findings_if, seconds
from provision.core.errors import UsageError


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target")
    suites = parser.add_mutually_exclusive_group()
    suites.add_argument("--quick", action="store_true", help="what gates a build; the default")
    suites.add_argument("--full", action="store_true", help="all checks: minutes")
    suites.add_argument("--health", action="store_true", help="the hardware itself, under load")
    parser.add_argument(
        "--soak", type=seconds, metavar="TIME",
        help="with --full or --health: hold the load for 90s, 10m or 2h, and draw its course",
    )  # fmt: skip
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
    add_contract(parser)


def handle(call: Call) -> Outcome:
    from provision.commands.machine import read_layers
    from provision.commands.prove import prove, prove_interpreter, unchanged
    from provision.commands.smoke import SmokeRequest
    from provision.core.process import run
    from provision.ui.smoke import show_skipped, show_smoke

    device, soak = call.arguments.device, call.arguments.soak
    suite = next((name for name in ("full", "health") if getattr(call.arguments, name)), "quick")
    if soak and suite == "quick":
        raise UsageError("--soak: the quick checks hold no load", remedy="add --health or --full")
    if device not in ("", "all") and not device.isdecimal():
        raise UsageError(f"--device {device}: neither a number nor `all`")
    layers = read_layers(call.project)
    request = SmokeRequest(
        call.project, call.target, layers, suite, soak, device, call.arguments.junit
    )
    if call.arguments.if_driver_changed and (skipped := unchanged(request, call.console)):
        return Outcome(skipped, show_skipped, findings_if(skipped.failed))
    if call.arguments.against:
        result = prove_interpreter(request, call.arguments.against, run, call.console)
    else:
        result = prove(request, run, call.console)
    bad = not result.report.proves or (result.comparison and result.comparison.bad)
    return Outcome(result, show_smoke, findings_if(bad))
