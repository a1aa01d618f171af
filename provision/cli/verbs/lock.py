"""spec and catalog -> lock; prints what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.call import Call, Outcome, each, findings_if
from provision.core.errors import Exit, UsageError

if TYPE_CHECKING:
    from provision.resolver.resolver import Resolver


def handle(call: Call) -> Outcome:
    from provision.commands import lock as locking
    from provision.spec.reader import load_targets, target_names
    from provision.ui.results import show_confirmation, show_freshness, show_lock

    project, wanted = call.project, call.arguments
    targets, broken = load_targets(
        project.specs, wanted.targets or target_names(project.specs)
    )
    if wanted.resolve and not wanted.check:
        raise UsageError("--resolve goes with --check")
    with_pip_tools = wanted.engine == "pip-tools"
    if wanted.check and not (wanted.resolve or with_pip_tools):
        fresh = locking.check_freshness(targets, project)
        fresh += [
            locking.Freshness(name, error.what, error) for name, error in broken.items()
        ]
        code = (
            Exit.USAGE if broken else findings_if(any(found.stale for found in fresh))
        )
        return Outcome(fresh, each(show_freshness), code)
    resolver = make_resolver(call, wanted.engine)
    if broken and (with_pip_tools or wanted.upgrade is not None):
        raise next(iter(broken.values()))
    if wanted.check and with_pip_tools:
        judged = [locking.confirm_with_pip_tools(t, project, resolver) for t in targets]
        differ = any(found.differences for found in judged)
        return Outcome(judged, each(show_confirmation), findings_if(differ))
    if wanted.upgrade is not None:
        return _upgrade(call, resolver)
    results = locking.lock(targets, project, resolver, write=not wanted.check)
    results += [locking.LockResult(name, error=error) for name, error in broken.items()]
    differs = wanted.check and any(result.differs for result in results)
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
