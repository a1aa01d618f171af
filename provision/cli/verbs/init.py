"""make a project of this repository: one spec per target, and nox sessions."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path

from provision.cli.call import Call, Outcome, findings_if
from provision.commands.detect import fitting_shipped_targets
from provision.commands.init import Choice, initialize
from provision.core.project import Project, shipped
from provision.spec.reader import load_target
from provision.ui.results import show_initialized

ANYWHERE = True


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="a requirements file, pyproject.toml or environment.yml; default: the usual ones",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="a shipped target, may be given again; default: this machine's and the CPU's",
    )
    parser.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="E",
        help="an extra of the pyproject.toml, may be given again",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="G",
        help="a dependency group of the pyproject.toml, may be given again",
    )


def handle(call: Call) -> Outcome:
    # Not the project of a folder above this one.
    arguments = call.arguments
    here = Project((arguments.project or Path.cwd()).absolute())
    names = arguments.target or fitting_shipped_targets(call.project)
    choice = Choice(
        tuple(arguments.files), tuple(arguments.extra), tuple(arguments.group)
    )
    result = initialize(here, names, call.console, choice)
    platforms = {}
    for name in names:
        platforms[name] = load_target(shipped().specs, name).platform
    return Outcome(
        result,
        partial(show_initialized, platforms=platforms),
        findings_if(result.empty),
    )
