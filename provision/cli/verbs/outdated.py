"""what is newer than the locks, and what is known against them."""

from provision.cli.call import Call, Outcome, each, findings_if
from provision.core.errors import Exit


def handle(call: Call) -> Outcome:
    from functools import partial

    from provision.cli.verbs.lock import make_resolver
    from provision.commands.outdated import Outdated, outdated
    from provision.core.interruption import in_threads
    from provision.spec.reader import load_targets, target_names
    from provision.ui.template import template

    project, only = call.project, call.arguments.audit
    names = call.arguments.targets or target_names(project.specs)
    targets, broken = load_targets(project.specs, names)
    compare = partial(
        outdated, project=project, resolver=make_resolver(call), newer=not only
    )
    found = in_threads(compare, targets, 4)  # more would only wait for the cores
    found += [Outdated(name, error=error) for name, error in broken.items()]
    codes = [int(result.error.exit_code) for result in found if result.error]
    # An audit that looked nothing up is not green; what is newer can be told without it.
    blind = only and any(result.not_looked_up for result in found)
    code = max(
        [*codes, Exit.TOOL if blind else findings_if(any(one.bad for one in found))]
    )
    return Outcome(found, each(template("outdated")), code)
