"""explain why a package is in the lock, in this version and from this index, or why it is not."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome, worst
from provision.commands.explain import explain
from provision.core.errors import Exit
from provision.ui.explain import show_explanations


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("package", help="a package's name")
    parser.add_argument(
        "-t",
        "--target",
        dest="targets",
        action="append",
        default=[],
        metavar="TARGET",
        help="a target whose lock is read; may be given again; default: all that have it",
    )


def handle(call: Call) -> Outcome:
    found = explain(call.project, call.arguments.package, call.arguments.targets)
    return Outcome(found, show_explanations, worst(Exit.OK, found))
