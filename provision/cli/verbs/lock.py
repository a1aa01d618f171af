"""spec and catalog -> lock; prints what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, each, findings_if
from provision.core.errors import Exit, UsageError

if TYPE_CHECKING:
    import argparse

    from provision.commands.lock import Confirmation, Freshness, LockResult
    from provision.core.errors import SpecError
    from provision.core.project import Project
    from provision.resolver.resolver import Resolver
    from provision.spec.model import Target
    from provision.ui.console import Console

    Loaded = tuple[list[Target], dict[str, SpecError]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the targets and how they are locked."""
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    parser.add_argument("--check", action="store_true", help="only say whether the locks are fresh")
    parser.add_argument(
        "--resolve", action="store_true", help="with --check: resolve again, compare the bytes"
    )
    parser.add_argument(
        "--upgrade", nargs="?", const="", metavar="PKG",
        help="move the cut-off to today, for one package or (without PKG, last) for all",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=["uv", "pip-tools"], default="uv",
        help="the resolver; pip-tools only for this platform; with --check a second opinion",
    )  # fmt: skip


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[list[Freshness]] | Outcome[list[Confirmation]] | Outcome[list[LockResult]]:
    """Check, confirm, upgrade or lock."""
    from provision.spec.reader import load_targets, target_names

    names = arguments.targets or target_names(project.specs)
    targets, broken = load_targets(project.specs, names)
    if arguments.resolve and not arguments.check:
        raise UsageError("--resolve goes with --check")
    with_pip_tools = arguments.engine == "pip-tools"
    if arguments.check and not (arguments.resolve or with_pip_tools):
        return _check((targets, broken), project)
    _say_hidden(targets, project, console)
    resolver = make_resolver(project, console, arguments.engine)
    if broken and (with_pip_tools or arguments.upgrade is not None):
        raise next(iter(broken.values()))
    if arguments.check and with_pip_tools:
        return _confirm(targets, project, resolver)
    if arguments.upgrade is not None:
        return _upgrade(targets, project, resolver, arguments.upgrade)
    return _lock((targets, broken), project, resolver, write=not arguments.check)


def _say_hidden(targets: list[Target], project: Project, console: Console) -> None:
    from provision.catalog.snapshot import hidden

    for name in hidden(project.catalog, {name for target in targets for name in target.pip.index}):
        console.note(f"{name}: envs/catalog/{name}.json is used, not the shipped one")


def make_resolver(project: Project, console: Console, engine: str = "uv") -> Resolver:
    """Return the resolver of a project, with this machine's pip configuration."""
    from provision.artifacts.pip_config import read_pip_config
    from provision.core.process import run
    from provision.resolver.resolver import Resolver

    return Resolver(project.catalog, read_pip_config(), run, console, engine=engine)


def _check(loaded: Loaded, project: Project) -> Outcome[list[Freshness]]:
    from provision.commands.lock import Freshness, check_freshness
    from provision.ui.lock import show_freshness

    targets, broken = loaded
    found = check_freshness(targets, project)
    found += [Freshness(name, error.what, error) for name, error in broken.items()]
    code = Exit.USAGE if broken else findings_if(any(f.stale for f in found))
    return Outcome(found, each(show_freshness), code)


def _confirm(
    targets: list[Target], project: Project, resolver: Resolver
) -> Outcome[list[Confirmation]]:
    from provision.commands.lock import confirm_with_pip_tools
    from provision.ui.lock import show_confirmation

    found = [confirm_with_pip_tools(target, project, resolver) for target in targets]
    return Outcome(found, each(show_confirmation), findings_if(any(f.differences for f in found)))


def _upgrade(
    targets: list[Target], project: Project, resolver: Resolver, package: str
) -> Outcome[list[LockResult]]:
    import datetime as dt
    import functools

    from provision.commands.edit_spec import edit_and_lock
    from provision.commands.upgrade import move_cutoff
    from provision.ui.lock import show_lock

    today = dt.datetime.now(dt.UTC).date()
    edit = functools.partial(move_cutoff, project=project, package=package or None, day=today)
    results = edit_and_lock([target.name for target in targets], edit, project, resolver)
    return Outcome(results, each(show_lock))


def _lock(
    loaded: Loaded, project: Project, resolver: Resolver, *, write: bool
) -> Outcome[list[LockResult]]:
    from provision.commands.lock import LockResult, lock
    from provision.ui.lock import show_lock

    targets, broken = loaded
    results = lock(targets, project, resolver, write=write)
    results += [LockResult(name, error=error) for name, error in broken.items()]
    differs = not write and any(result.differs for result in results)
    codes = [int(result.error.exit_code) for result in results if result.error]
    # Exit codes rise with severity, so the worst target decides.
    return Outcome(results, each(show_lock), max([*codes, findings_if(differs)]))
