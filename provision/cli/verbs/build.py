"""lock -> a verified, proven, current environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.call import Call, Outcome, findings_if

if TYPE_CHECKING:
    from provision.commands.build import BuildResult


def handle(call: Call) -> Outcome:
    from provision.commands.up_to_date import fingerprint, recall

    better = _choose(call) if call.arguments.target == "auto" else None
    target = call.arguments.target
    # Taken before the full path reads the same files, so that a file edited in between is noticed.
    before = fingerprint(call.project, target)
    # A folder that --wheelhouse names has to exist, which the full path checks.
    plain = better is None and not call.arguments.wheelhouse
    if plain and (found := recall(call.project, target, before)):
        from provision.ui.up_to_date import show_up_to_date

        return Outcome(found, show_up_to_date)
    from provision.ui.results import show_build

    built = build_named(call, before)
    # After the build, whose output has pushed the detection off the screen.
    for note in better or ():
        call.console.note(note)
    return Outcome(built, show_build, findings_if(not built.generation))


def build_named(call: Call, before: str) -> BuildResult:
    """Build the target that the arguments name; ``before`` is its fingerprint."""
    from provision.commands.build import build
    from provision.commands.up_to_date import remember
    from provision.core.process import run

    built = build(call.build_request(), run, call.console)
    if built.generation:
        remember(built.generation, call.target, before)
    return built


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
