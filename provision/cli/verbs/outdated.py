"""list newer versions and known vulnerabilities of what is locked."""

from argparse import ArgumentParser
from functools import partial

from provision.cli.call import Call, Outcome, findings_if, worst
from provision.cli.options import add_targets
from provision.cli.verbs.lock import make_resolver
from provision.commands.freshness import chosen_targets
from provision.commands.outdated import Outdated, outdated
from provision.core.errors import Exit
from provision.core.interruption import in_threads
from provision.ui.outdated import show_outdated


def declare(parser: ArgumentParser) -> None:
    add_targets(parser)
    parser.add_argument(
        "--audit", action="store_true", help="only look up known vulnerabilities"
    )


def handle(call: Call) -> Outcome:
    project, audit = call.project, call.arguments.audit
    targets, broken = chosen_targets(project, call.arguments.targets)
    compare = partial(
        outdated, project=project, resolver=make_resolver(call), newer=not audit
    )
    results = in_threads(compare, targets, 4)  # more would only wait for the cores
    for name, error in broken.items():
        results.append(Outdated(name, error=error))
    code = findings_if(any(result.bad for result in results))
    # An audit that looked nothing up is not green; what is newer can be listed without it.
    if audit and any(result.not_looked_up for result in results):
        code = Exit.TOOL
    return Outcome(results, show_outdated, worst(code, results))
