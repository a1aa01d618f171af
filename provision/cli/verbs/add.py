"""add requirements to a spec, lock it and build it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.call import Call, Outcome, each, findings_if

if TYPE_CHECKING:
    from provision.spec.model import Target


def handle(call: Call) -> Outcome:
    from provision.commands.edit_spec import add_to

    words, index = call.arguments.words, call.arguments.index
    return edit(lambda path: add_to(path, words, index), call)


def edit(change: Callable[[Path], Target], call: Call) -> Outcome:
    """Edit and lock targets, then build those built before, or the named one if it fits here."""
    from provision.cli.verbs.build import build_target
    from provision.cli.verbs.lock import make_resolver
    from provision.commands.detect import why_device_is_absent
    from provision.commands.edit_spec import Edited, edit_and_lock
    from provision.core.platforms import this_platform
    from provision.core.project import CURRENT
    from provision.spec.reader import load_target, target_names
    from provision.ui.results import show_edited

    project, arguments = call.project, call.arguments
    every = arguments.target == "all"
    names = target_names(project.specs) if every else [arguments.target]
    targets = [load_target(project.specs, name) for name in names]
    done = []
    locks = edit_and_lock(names, change, project, make_resolver(call))
    for target, lock in zip(targets, locks, strict=True):
        known = (project.environments(target.name) / CURRENT).exists()
        here, built = (
            not arguments.no_build and target.platform == this_platform(),
            None,
        )
        if here and (known or not (every or why_device_is_absent(project, target))):
            arguments.target = target.name
            built = build_target(Call(arguments, project, call.console))
        done.append(Edited(lock, built))
    failed = any(one.build and not one.build.generation for one in done)
    return Outcome(done, each(show_edited), findings_if(failed))
