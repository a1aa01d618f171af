"""refresh the catalogs from the network."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome, each, findings_if
from provision.commands.update import update
from provision.core.process import run
from provision.spec.reader import load_spec, target_names
from provision.ui.results import show_refresh


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="an index, channel, driver set or python-standalone; by default all that targets use",
    )
    parser.add_argument("--url", help="the address of an index that has no catalog yet")


def handle(call: Call) -> Outcome:
    specs, options = call.project.specs, call.arguments
    targets = [load_spec(specs / f"{name}.toml") for name in target_names(specs)]
    results = update(
        call.project, targets, call.console, run, only=options.names, url=options.url
    )
    # Exit codes rise with severity, so the worst error decides.
    code = findings_if(any(result.bad for result in results))
    for result in results:
        code = max([code, *(error.exit_code for error in result.errors)])
    return Outcome(results, each(show_refresh), code)
