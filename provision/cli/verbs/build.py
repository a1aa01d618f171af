"""lock -> a verified, proven, current environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.call import Call, Outcome, findings_if

if TYPE_CHECKING:
    from provision.commands.build import BuildResult


def handle(call: Call) -> Outcome:
    from provision.ui.results import show_build

    automatic = call.arguments.target == "auto"
    better = _choose(call) if automatic else []
    if not automatic:  # which has said it with the detection
        _note_known_wrong(call)
    built = build_target(call)
    # After the build, whose output has pushed the detection off the screen.
    for note in better:
        call.console.note(note)
    return Outcome(built, show_build, findings_if(not built.generation))


def build_target(call: Call) -> BuildResult:
    """Build the target that the arguments name."""
    from provision.commands.build import build
    from provision.core.process import run

    return build(call.build_request(), run, call.console)


def _note_known_wrong(call: Call) -> None:
    """Say before a build which numbers of its torch are wrong with this machine's driver."""
    from provision.commands.known_wrong import known_wrong_here, locked_torch
    from provision.commands.machine import this_host

    target = call.target
    if target.accelerator == "xpu":
        torch = locked_torch(call.project.lock(target.name))
        for line in known_wrong_here(call.project, this_host(call.project), torch):
            call.console.note(line)


def _choose(call: Call) -> list[str]:
    """Choose the target that fits this machine; return notes on those that would fit better."""
    from provision.commands.detect import choose_target, detect_machine
    from provision.ui.results import show_detection

    found = detect_machine(call.project)
    show_detection(found, call.console)
    call.arguments.target = choose_target(found)
    return [
        f"{fit.target} fits this machine better; {fit.remedy}, then build again"
        for fit in found.better
    ]
