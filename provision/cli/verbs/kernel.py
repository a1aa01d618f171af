"""install a Jupyter kernel that follows the current generation, and print IDE settings."""

from pathlib import Path

from provision.cli.call import Call, Outcome, Parser


def add_arguments(parser: Parser) -> None:
    parser.add_argument("target", help="the target's name")
    parser.add_argument("--prefix", type=Path, metavar="DIR", help="for the Jupyter of DIR only")


def handle(call: Call) -> Outcome:
    from provision.commands.kernel import install_kernel
    from provision.ui.results import show_kernel

    made = install_kernel(call.project, call.arguments.target, call.arguments.prefix)
    return Outcome(made, show_kernel)
