"""spec and catalog -> lock; prints what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.call import Call, Outcome, each, findings_if
from provision.core.errors import Exit, UsageError

if TYPE_CHECKING:
    from provision.commands.lock import LockResult
    from provision.resolver.resolver import Resolver


def handle(call: Call) -> Outcome:
    from provision.commands import lock as locking
    from provision.spec.reader import load_targets, target_names
    from provision.ui.results import show_confirmation, show_freshness, show_lock

    project, arguments = call.project, call.arguments
    if arguments.resolve and not arguments.check:
        raise UsageError("--resolve goes with --check")
    names = arguments.targets or target_names(project.specs)
    targets, broken = load_targets(project.specs, names)
    second_opinion = arguments.check and arguments.engine == "pip-tools"
    if arguments.check and not (arguments.resolve or second_opinion):
        checked = locking.check_freshness(targets, project)
        for name, error in broken.items():
            checked.append(locking.Freshness(name, error.what, error))
        stale = any(result.stale for result in checked)
        code = Exit.USAGE if broken else findings_if(stale)
        return Outcome(checked, each(show_freshness), code)
    resolver = make_resolver(call, arguments.engine)
    needs_all = arguments.engine == "pip-tools" or arguments.upgrade is not None
    if broken and needs_all:
        raise next(iter(broken.values()))
    if second_opinion:
        judged = [locking.confirm_with_pip_tools(t, project, resolver) for t in targets]
        differ = any(result.differences for result in judged)
        return Outcome(judged, each(show_confirmation), findings_if(differ))
    if arguments.upgrade is not None:
        return _upgrade(call, resolver)
    results: list[LockResult] = []
    # Naming a target resolves it even where nothing changed.
    if not (arguments.targets or arguments.check):
        targets, results = locking.part_fresh(targets, project)
    results += locking.lock(targets, project, resolver, write=not arguments.check)
    results += [locking.LockResult(name, error=error) for name, error in broken.items()]
    results.sort(key=lambda result: result.target)
    differs = arguments.check and any(result.differs for result in results)
    codes = [int(result.error.exit_code) for result in results if result.error]
    # Exit codes rise with severity, so the worst target decides.
    return Outcome(results, each(show_lock), max([*codes, findings_if(differs)]))


def make_resolver(call: Call, engine: str = "uv") -> Resolver:
    """Return the resolver of a project, with this machine's pip configuration."""
    from provision.artifacts.pip_config import read_pip_config
    from provision.core.process import run
    from provision.resolver.resolver import Resolver

    return Resolver(
        call.project.catalog, read_pip_config(), run, call.console, engine=engine
    )


def _upgrade(call: Call, resolver: Resolver) -> Outcome:
    import datetime as dt

    from provision.commands.edit_spec import edit_and_lock, move_cutoff, upgradable
    from provision.spec.reader import target_names
    from provision.ui.results import show_lock

    project, named, package = (
        call.project,
        call.arguments.targets,
        call.arguments.upgrade,
    )
    names = (
        upgradable(project, named, package)
        if package
        else named or target_names(project.specs)
    )
    today = dt.datetime.now(dt.UTC).date()
    results = edit_and_lock(
        names, lambda path: move_cutoff(path, package or None, today), project, resolver
    )
    return Outcome(results, each(show_lock))
