"""add requirements to a spec, lock it and build it."""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.cli.options import add_build, add_target
from provision.cli.verbs.build import build_target
from provision.cli.verbs.lock import make_resolver
from provision.commands.detect import why_device_is_absent
from provision.commands.edit_spec import Edited, add_to, edit_and_lock
from provision.commands.freshness import lockable_names
from provision.commands.machine import host_reader
from provision.core.platforms import this_platform
from provision.core.project import CURRENT
from provision.host.model import Host
from provision.spec.model import Target
from provision.spec.reader import load_target
from provision.ui.results import show_edited


def declare(parser: ArgumentParser) -> None:
    declare_edit(parser, metavar="REQ", about="such as 'einops>=0.8'")
    parser.add_argument(
        "--index", metavar="NAME", help="the catalog index that they come from"
    )


def declare_edit(parser: ArgumentParser, metavar: str, about: str) -> None:
    """Add what both verbs take that edit a spec."""
    add_target(parser, "a target's name, or `all`")
    parser.add_argument("words", nargs="+", metavar=metavar, help=about)
    parser.add_argument("--no-build", action="store_true", help="only edit and lock")
    add_build(parser)


def handle(call: Call) -> Outcome:
    words, index = call.arguments.words, call.arguments.index
    return edit(lambda path: add_to(path, words, index), call)


def edit(change: Callable[[Path], Target], call: Call) -> Outcome:
    """Edit and lock targets, then build those built before, or the named one if it fits here."""
    project, target = call.project, call.arguments.target
    names = lockable_names(project) if target == "all" else [target]
    targets = [load_target(project.specs, name) for name in names]
    locks = edit_and_lock(names, change, project, make_resolver(call))
    host, edited = host_reader(project), []
    for spec, lock in zip(targets, locks, strict=True):
        built = None
        if _is_built(call, spec, host):
            built = build_target(call, spec.name, host)
        edited.append(Edited(lock, built))
    failed = any(one.build and not one.build.generation for one in edited)
    return Outcome(edited, each(show_edited), findings_if(failed))


def _is_built(call: Call, target: Target, host: Callable[[], Host]) -> bool:
    if call.arguments.no_build or target.platform != this_platform():
        return False
    if (call.project.environments(target.name) / CURRENT).exists():
        return True
    named = call.arguments.target == target.name
    return named and not why_device_is_absent(target, host)
