"""run a command in the clean environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the target and the command."""
    parser.add_argument("target")
    parser.add_argument(
        "command", nargs="+", metavar="-- CMD", help="the command and its arguments"
    )


def handle(arguments: argparse.Namespace, project: Project, console: Console) -> int:
    """Run the command on the caller's terminal; its exit code is ours."""
    from provision.commands.current import require_current
    from provision.core.process import clean_environment, dropped_variables, run_foreground
    from provision.spec.reader import load_target

    target = load_target(project.specs, arguments.target)
    now = require_current(project, target.name)
    if now.record.proof == "unproven":
        console.note(f"{target.name} is unproven: {now.record.reason}")
    if dropped := dropped_variables():
        console.step(f"not passed on: {', '.join(dropped)}")
    # With the spec's variables, under which the checks ran as well.
    environment = clean_environment(prefix=now.folder, extra=target.variables(now.folder))
    return run_foreground(arguments.command, env=environment)
