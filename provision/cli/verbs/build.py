"""build an environment from its lock, check it, and make it current."""

from argparse import ArgumentParser
from collections.abc import Callable

from provision.catalog.devices import read_devices
from provision.cli.call import Call, Outcome, findings_if
from provision.cli.options import add_build, add_target
from provision.commands.build_request import (
    BuildRequest,
    BuildResult,
    ready_generation,
)
from provision.commands.detect import (
    TargetFit,
    choose_target,
    detect_machine,
    why_device_is_absent,
)
from provision.commands.known_wrong import locked_torch
from provision.commands.machine import host_reader
from provision.commands.request import (
    artifact_sources,
    require_fresh_lock,
    require_platform,
)
from provision.core.process import run
from provision.host.known_wrong import known_wrong, rows_of_torch
from provision.host.model import Host, host_layers
from provision.spec.reader import load_target
from provision.ui.detection import show_choice
from provision.ui.results import show_build


def declare(parser: ArgumentParser) -> None:
    add_target(parser, "a target's name, or `auto` for the one that fits")
    add_build(parser)


def handle(call: Call) -> Outcome:
    name = call.arguments.target
    better: tuple[TargetFit, ...] = ()
    host = host_reader(call.project)
    if name == "auto":
        detection = detect_machine(call.project, host())
        show_choice(detection, call.console)
        name, better = choose_target(detection), detection.better
    else:  # of another one the detection has said it
        _note_known_wrong(call, host)
    built = build_target(call, name, host)
    # After the build, whose output has pushed the detection off the screen.
    for fit in better:
        call.console.note(
            f"{fit.target} fits this machine better; {fit.remedy}, then build again"
        )
    return Outcome(built, show_build, findings_if(not built.generation))


def build_target(call: Call, name: str, host: Callable[[], Host]) -> BuildResult:
    """Build a target with the options that were typed; ``host`` reads this machine if need be."""
    request = build_request(call, name, host)
    if ready := ready_generation(request):
        return BuildResult(name, ready)
    # With all that downloads, installs and checks: to load it takes longer than to find out that
    # there is nothing to do.
    from provision.commands.build import build  # noqa: PLC0415

    return build(request, run, call.console)


def _note_known_wrong(call: Call, host: Callable[[], Host]) -> None:
    """Say before a build which numbers of its torch are wrong with this machine's driver."""
    project, target = call.project, call.target
    if target.accelerator == "cpu":
        return
    torch = locked_torch(project.lock(target.name))
    devices = read_devices(project.catalog)
    if rows_of_torch(torch, target.accelerator, devices):
        for line in known_wrong(torch, target.accelerator, host(), devices):
            call.console.note(line)


def build_request(call: Call, name: str, host: Callable[[], Host]) -> BuildRequest:
    """What to build, for a verb with the options of a build."""
    project, options = call.project, call.arguments
    target = load_target(project.specs, name)
    require_platform(target)
    if target.reason:
        call.console.note(f"{target.name} is {target.status}: {target.reason}")
    return BuildRequest(
        project,
        target,
        require_fresh_lock(project, target),
        artifact_sources(project, target, options.wheelhouse, offline=options.offline),
        smoke=not options.no_smoke,
        absent=why_device_is_absent(target, host),
        stack=lambda: host_layers(host()),
    )
