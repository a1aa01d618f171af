"""refresh the catalogs from the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, each, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.catalog.snapshot_update import RefreshResult
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the names of indexes and channels."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="an index, channel or driver set; all that the targets use if none is named",
    )
    parser.add_argument("--url", help="the address of an index that has no catalog yet")


def handle(
    arguments: argparse.Namespace, project: Project, console: Console
) -> Outcome[list[RefreshResult]]:
    """Refresh snapshots; the exit code is the worst error's."""
    from provision.commands.update import start_index, update
    from provision.core.process import run
    from provision.spec.reader import load_spec, target_names
    from provision.ui.update import show_refresh

    if arguments.url:
        start_index(project.catalog, arguments.names, arguments.url)
    targets = [load_spec(project.specs / f"{name}.toml") for name in target_names(project.specs)]
    with console.downloads() as on_bytes:
        results = update(
            project, targets, project.root / ".cache" / "update",
            progress=console, on_bytes=on_bytes, run=run, only=arguments.names,
        )  # fmt: skip
    codes = [int(error.exit_code) for result in results for error in result.errors]
    code = max([*codes, findings_if(any(result.bad for result in results))])
    return Outcome(results, each(show_refresh), code)
