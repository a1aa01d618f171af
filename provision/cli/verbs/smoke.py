"""run the checks, compare with the last good report."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser, add_contract, findings_if, seconds
from provision.core.errors import UsageError


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")
    add, suite = parser.add_argument, parser.add_mutually_exclusive_group().add_argument
    suite("--quick", action="store_true", help="what gates a build; the default")
    suite("--full", action="store_true", help="all checks: minutes")
    suite("--health", action="store_true", help="the hardware itself, under load")
    said = "with --full or --health: hold the load for 90s, 10m or 2h, and draw its course"
    add("--soak", type=seconds, metavar="TIME", help=said)
    either = parser.add_mutually_exclusive_group().add_argument
    said = "only where driver, kernel, runtime or lock differ from the last report"
    either("--if-driver-changed", action="store_true", help=said)
    either("--against", type=Path, metavar="PYTHON", help="check its environment; keeps no report")
    said = "the device of this number, as torch counts, or `all`; all is the default of --full"
    add("--device", default="", metavar="N", help=said)
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML as well")
    add_contract(parser)


def handle(call: Call) -> Outcome:
    from provision.commands.machine import read_layers
    from provision.commands.prove import prove, unchanged
    from provision.commands.smoke import SmokeRequest, from_interpreter, smoke
    from provision.core.process import run
    from provision.report.regressions import SmokeResult
    from provision.ui.smoke import show_skipped, show_smoke

    device, soak = call.arguments.device, call.arguments.soak
    suite = next((name for name in ("full", "health") if getattr(call.arguments, name)), "quick")
    if soak and suite == "quick":
        raise UsageError("--soak: the quick checks hold no load", remedy="add --health or --full")
    if device not in ("", "all") and not device.isdecimal():
        raise UsageError(f"--device {device}: neither a number nor `all`")
    device = str(int(device)) if device.isdecimal() else device
    layers = read_layers(call.project)
    request = SmokeRequest(
        call.project, call.target, layers, suite, soak, device, call.arguments.junit
    )
    if call.arguments.if_driver_changed and (skipped := unchanged(request, call.console)):
        return Outcome(skipped, show_skipped, findings_if(skipped.failed))
    if call.arguments.against:
        subject = from_interpreter(call.arguments.against, run)
        result = SmokeResult(smoke(request, subject, run, call.console), None)
    else:
        result = prove(request, run, call.console)
    bad = not result.report.proves or (result.comparison and result.comparison.bad)
    return Outcome(result, show_smoke, findings_if(bad))
