"""run the checks, compare with the last good report."""

from provision.cli.call import Call, Outcome
from provision.core.errors import UsageError


def handle(call: Call) -> Outcome:
    from provision.commands import smoke
    from provision.commands.check import check, require_end
    from provision.commands.machine import read_layers
    from provision.commands.subject import from_interpreter
    from provision.commands.suite import SmokeRequest
    from provision.core.process import run
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
        call.project,
        call.target,
        layers,
        suite,
        soak,
        device,
        call.arguments.junit,
        call.arguments.fail_if_slower,
    )
    if call.arguments.if_driver_changed and (
        skipped := smoke.unchanged(request, call.console)
    ):
        return Outcome(skipped, show_skipped, smoke.exit_code(skipped.word))
    if call.arguments.against:
        subject = from_interpreter(call.arguments.against, run)
        kept = check(request, subject, run, call.console)
        require_end(kept, subject)
        result = smoke.SmokeResult(kept.report, None)
    else:
        result = smoke.smoke(request, run, call.console)
    return Outcome(result, show_smoke, smoke.exit_code(result.report.word))
