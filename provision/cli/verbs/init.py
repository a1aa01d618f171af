"""make a project of this repository: a spec per target, and sessions."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome, findings_if
from provision.commands.detect import fitting_shipped_targets
from provision.commands.init import initialize
from provision.core.project import Project
from provision.ui.results import show_initialized

ANYWHERE = True


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="a shipped target, may be given again; this machine's and the CPU's if none is named",
    )


def handle(call: Call) -> Outcome:
    # Not the project of a folder above this one.
    here = Project((call.arguments.project or Path.cwd()).absolute())
    names = call.arguments.target or fitting_shipped_targets(call.project)
    result = initialize(here, names)
    return Outcome(result, show_initialized, findings_if(result.empty))
