"""run a command in the clean environment."""

import os
from collections.abc import Sequence

from provision.cli.call import Call


def mark_command(words: Sequence[str]) -> list[str]:
    """Return the words with ``--`` before the command of ``run``: its options are its own."""
    places = iter(range(len(words)))
    named = 0  # of the verb and the target
    for place in places:
        word = words[place]
        if word == "--" or (word[:1] != "-" and not named and word != "run"):
            break
        if word.startswith("-"):
            # argparse takes a long option by any beginning of its name.
            if word == "-C" or any(
                o.startswith(word) for o in ("--project", "--env") if word[2:]
            ):
                next(places, None)
        elif named == 2:
            return [*words[:place], "--", *words[place:]]
        else:
            named += 1
    return list(words)


def handle(call: Call) -> int:
    from provision.commands.current import hold_current
    from provision.core.process import become
    from provision.core.variables import program_environment

    target, console = call.target, call.console
    now, _ = hold_current(call.project, target.name)
    if why := now.misplaced():
        console.note(
            f"{target.name} {why}; `provision build {target.name}` builds it again"
        )
    if now.record.proof == "unproven":
        console.note(f"{target.name} is unproven: {now.record.reason}")
    # With the spec's variables, under which the checks ran as well.
    variables, kept = (
        target.variables(now.folder),
        [*target.run.keep, *call.arguments.env],
    )
    environment, dropped = program_environment(
        os.environ, now.folder, variables, keep=kept
    )
    if dropped:
        console.step(f"not passed on: {', '.join(dropped)} (`--env NAME` passes one)")
    return become(call.arguments.command, env=environment)
