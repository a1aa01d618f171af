"""resolve specs into locks, and print what changed."""

import datetime as dt
from argparse import ArgumentParser

from provision.artifacts.pip_config import read_pip_config
from provision.cli.call import Call, Outcome, each, findings_if, worst
from provision.cli.options import add_targets
from provision.commands import lock as locking
from provision.commands.edit_journal import editing_alone, undo_killed_edit
from provision.commands.edit_spec import edit_and_lock, move_cutoff, upgradable
from provision.commands.freshness import Freshness, check_freshness, chosen_targets
from provision.core.errors import Exit, SpecError, UsageError
from provision.core.process import run
from provision.core.project import Project
from provision.resolver.resolver import Resolver
from provision.spec.model import Target
from provision.spec.reader import load_targets
from provision.ui.results import show_confirmation, show_freshness, show_lock


def declare(parser: ArgumentParser) -> None:
    add_targets(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="report whether the locks are fresh, and change nothing",
    )
    parser.add_argument(
        "--resolve",
        action="store_true",
        help="with --check: resolve again, and compare the bytes",
    )
    parser.add_argument(
        "--upgrade",
        nargs="?",
        const="",
        metavar="PKG",
        help="move the cut-off to today, for PKG or (as the last option, without PKG) for all packages",
    )
    parser.add_argument(
        "--engine",
        choices=("uv", "pip-tools"),
        default="uv",
        help="default uv; pip-tools only for this platform, with --check as a second opinion",
    )


def handle(call: Call) -> Outcome:
    project, options = call.project, call.arguments
    if options.resolve and not options.check:
        raise UsageError("--resolve goes with --check")
    if not options.check:
        undo_killed_edit(project, call.console)
    targets, broken = chosen_targets(project, options.targets)
    pip_tools = options.engine == "pip-tools"
    if options.check and not options.resolve and not pip_tools:
        return _freshness(call, targets, broken)
    if broken and (pip_tools or options.upgrade is not None):
        raise next(iter(broken.values()))
    resolver = make_resolver(call, options.engine)
    if options.check and pip_tools:
        return _confirmed(project, resolver, targets)
    if options.upgrade is not None:
        return _upgrade(call, resolver, [target.name for target in targets])
    return _resolved(call, resolver, targets, broken)


def _confirmed(project: Project, resolver: Resolver, targets: list[Target]) -> Outcome:
    results = []
    differ = False
    for target in targets:
        result = locking.confirm_with_pip_tools(target, project, resolver)
        results.append(result)
        differ |= bool(result.differences)
    return Outcome(results, each(show_confirmation), findings_if(differ))


def _resolved(
    call: Call, resolver: Resolver, targets: list[Target], broken: dict[str, SpecError]
) -> Outcome:
    project, options = call.project, call.arguments
    results: list[locking.LockResult] = []
    # Naming a target resolves it even where nothing changed.
    if not options.targets and not options.check:
        targets, results = locking.part_fresh(targets, project)
    if options.check:
        results += locking.lock(targets, project, resolver, write=False)
    elif targets:  # else nothing is written, not even a file to lock
        results += _lock_alone(project, targets, resolver)
    results += _errors(broken)
    results.sort(key=lambda result: result.target)
    differs = options.check and any(result.differs for result in results)
    return Outcome(results, each(show_lock), worst(findings_if(differs), results))


def _lock_alone(
    project: Project, targets: list[Target], resolver: Resolver
) -> list[locking.LockResult]:
    with editing_alone(project, resolver.progress):
        # Once more: another command may have edited the specs since they were read.
        names = [target.name for target in targets]
        targets, broken = load_targets(project.specs, names)
        return locking.lock(targets, project, resolver) + _errors(broken)


def _errors(broken: dict[str, SpecError]) -> list[locking.LockResult]:
    return [locking.LockResult(name, error=error) for name, error in broken.items()]


def make_resolver(call: Call, engine: str = "uv") -> Resolver:
    """The resolver of a project, with this machine's pip configuration."""
    catalog = call.project.catalog
    return Resolver(catalog, read_pip_config(), run, call.console, engine=engine)


def _freshness(
    call: Call, targets: list[Target], broken: dict[str, SpecError]
) -> Outcome:
    results = check_freshness(targets, call.project)
    code = findings_if(any(result.stale for result in results))
    for name, error in broken.items():
        results.append(Freshness(name, error.what, error))
        code = Exit.USAGE
    return Outcome(results, each(show_freshness), code)


def _upgrade(call: Call, resolver: Resolver, names: list[str]) -> Outcome:
    project, package = call.project, call.arguments.upgrade
    if package:
        names = upgradable(project, call.arguments.targets, package)
    today = dt.datetime.now(dt.UTC).date()
    results = edit_and_lock(
        names, lambda path: move_cutoff(path, package or None, today), project, resolver
    )
    return Outcome(results, each(show_lock))
