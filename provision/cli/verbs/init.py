"""make a project of this repository: a spec per target, and sessions."""

from pathlib import Path

from provision.cli.call import Call, Outcome, findings_if
from provision.core.project import Project

ANYWHERE = True


def handle(call: Call) -> Outcome:
    from provision.commands.detect import fitting_shipped_targets
    from provision.commands.init import initialize
    from provision.ui.template import template

    # Not the project of a folder above this one.
    here = Project((call.arguments.project or Path.cwd()).absolute())
    result = initialize(
        here, call.arguments.target or fitting_shipped_targets(call.project)
    )
    return Outcome(result, template("initialized"), findings_if(result.empty))
