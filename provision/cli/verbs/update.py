"""refresh the catalogs from the network."""

from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.commands.extend_known_wrong import extend_known_wrong
from provision.commands.update import update
from provision.core.errors import Exit, UsageError
from provision.core.process import run
from provision.spec.reader import load_spec, target_names
from provision.ui.results import show_refresh


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="an index, channel, driver set or python-standalone; default: all that targets use",
    )
    parser.add_argument("--url", help="the address of an index that has no catalog yet")
    parser.add_argument(
        "--known-wrong",
        type=Path,
        metavar="FILE",
        help="add the rows of a TOML file to known-wrong.toml; needs no network",
    )


def handle(call: Call) -> Outcome:
    specs, options = call.project.specs, call.arguments
    if options.known_wrong:
        if options.names or options.url:
            raise UsageError(
                "--known-wrong goes without names and --url",
                remedy="`provision update --known-wrong FILE`, then the other update",
            )
        added = extend_known_wrong(call.project, options.known_wrong)
        return Outcome([added], each(show_refresh), Exit.OK)
    targets = [load_spec(specs / f"{name}.toml") for name in target_names(specs)]
    results = update(
        call.project, targets, call.console, run, only=options.names, url=options.url
    )
    code = findings_if(any(result.bad for result in results))
    # Exit codes rise with severity, so the worst error decides.
    for result in results:
        for error in result.errors:
            code = max(code, error.exit_code)
    return Outcome(results, each(show_refresh), code)
