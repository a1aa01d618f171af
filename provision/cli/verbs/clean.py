"""remove generations that are not in use."""

from provision.cli.call import Call, Outcome, each
from provision.core.errors import SpecError, UsageError


def handle(call: Call) -> Outcome:
    from provision.commands.generations import abandoned, clean
    from provision.spec.reader import load_target, target_names
    from provision.ui.template import template

    keep, everything = call.arguments.keep, call.arguments.all
    if keep < 0:
        raise UsageError("--keep takes a number from 0 up")
    specs, gone = call.project.specs, abandoned(call.project)
    names = [
        n if n in gone else load_target(specs, n).name for n in call.arguments.targets
    ]
    cleaned = []
    try:
        for name in names or [*target_names(specs), *gone]:
            try:
                done = clean(
                    call.project, name, call.console, keep=keep, everything=everything
                )
                cleaned.append(done)
            except SpecError as error:
                if name in names or name not in gone:
                    raise
                call.console.note(
                    f"left {name}, which has no spec, as it is: {error.what}"
                )
    except KeyboardInterrupt:
        each(template("cleaned"))(cleaned, call.console)
        raise
    return Outcome(cleaned, each(template("cleaned")))
