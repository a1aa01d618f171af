"""remove generations that are not in use."""

from argparse import ArgumentParser

from provision.cli.call import Call, Outcome, each
from provision.cli.options import add_targets
from provision.commands.generations import abandoned, clean
from provision.core.errors import SpecError, UsageError
from provision.spec.reader import load_target, target_names
from provision.ui.results import show_cleaned


def declare(parser: ArgumentParser) -> None:
    add_targets(
        parser, "default: all targets; a target without a spec can be named, too"
    )
    parser.add_argument(
        "--keep",
        type=int,
        default=0,
        metavar="N",
        help="keep N generations besides the current one",
    )
    parser.add_argument(
        "--all", action="store_true", help="remove the current generation, too"
    )


def handle(call: Call) -> Outcome:
    project, options = call.project, call.arguments
    if options.keep < 0:
        raise UsageError("--keep takes a number from 0 up")
    without_spec = abandoned(project)
    for name in options.targets:
        if name not in without_spec:
            load_target(project.specs, name)
    cleaned = []
    try:
        for name in options.targets or [*target_names(project.specs), *without_spec]:
            try:
                one = clean(
                    project,
                    name,
                    call.console,
                    keep=options.keep,
                    everything=options.all,
                )
                cleaned.append(one)
            except SpecError as error:
                if options.targets or name not in without_spec:
                    raise
                call.console.note(
                    f"left {name}, which has no spec, as it is: {error.what}"
                )
    except KeyboardInterrupt:
        each(show_cleaned)(cleaned, call.console)
        raise
    return Outcome(cleaned, each(show_cleaned))
