"""remove generations that are not in use."""

from provision.cli.call import Call, Outcome, Parser, each
from provision.core.errors import UsageError


def add_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("targets", nargs="*", metavar="TARGET", help="all of them if none is named")
    add("--keep", type=int, default=0, metavar="N", help="keep N besides the current one")
    add("--all", action="store_true", help="remove the current one too")


def handle(call: Call) -> Outcome:
    from provision.commands.generations import clean
    from provision.spec.reader import load_target, target_names
    from provision.ui.results import show_cleaned

    keep, everything = call.arguments.keep, call.arguments.all
    if keep < 0:
        raise UsageError("--keep takes a number from 0 up")
    specs = call.project.specs
    names = [load_target(specs, name).name for name in call.arguments.targets]
    cleaned = []
    try:
        for name in names or target_names(specs):
            done = clean(call.project, name, call.console, keep=keep, everything=everything)
            cleaned.append(done)
    except KeyboardInterrupt:
        each(show_cleaned)(cleaned, call.console)
        raise
    return Outcome(cleaned, each(show_cleaned))
