"""run the checks, compare with the last good report."""

from provision.cli.call import Call, Outcome, findings_if
from provision.core.errors import UsageError


def handle(call: Call) -> Outcome:
    from provision.commands.machine import read_layers
    from provision.commands.prove import prove, unchanged
    from provision.commands.smoke import SmokeRequest, from_interpreter, smoke
    from provision.core.process import run
    from provision.report.regressions import SmokeResult
    from provision.ui.smoke import show_skipped, show_smoke

    device, soak = call.arguments.device, call.arguments.soak
    suite = next(
        (name for name in ("full", "health") if getattr(call.arguments, name)), "quick"
    )
    if soak and suite == "quick":
        raise UsageError(
            "--soak: the quick checks hold no load", remedy="add --health or --full"
        )
    if device not in ("", "all") and not device.isdecimal():
        raise UsageError(f"--device {device}: neither a number nor `all`")
    device = str(int(device)) if device.isdecimal() else device
    layers = read_layers(call.project)
    request = SmokeRequest(
        call.project, call.target, layers, suite, soak, device, call.arguments.junit
    )
    if call.arguments.if_driver_changed and (
        skipped := unchanged(request, call.console)
    ):
        return Outcome(skipped, show_skipped, findings_if(skipped.failed))
    if call.arguments.against:
        subject = from_interpreter(call.arguments.against, run)
        result = SmokeResult(smoke(request, subject, run, call.console), None)
    else:
        result = prove(request, run, call.console)
    bad = not result.report.proves or (result.comparison and result.comparison.bad)
    return Outcome(result, show_smoke, findings_if(bad))
