"""print what completes these commands in a shell."""

import shlex
from pathlib import Path

from provision.cli.call import Call, Outcome
from provision.core.program import program_name

ANYWHERE = True


def handle(call: Call) -> Outcome:
    from provision.spec.reader import target_names
    from provision.ui.console import print_text

    names = "".join(f"{name}\n" for name in target_names(call.project.specs))
    text = names if call.arguments.shell == "targets" else _script(call.arguments.shell)
    return Outcome(text, lambda text, _: print_text(text))


def _script(shell: str) -> str:
    import shtab

    from provision.cli.main import parser

    name = program_name()
    own = name if name == "provision" else shlex.quote(str(Path(name).absolute()))
    lister = shtab.cmd(f"{'& ' * (shell == 'powershell')}{own} completion targets")
    whole = parser()
    actions = whole._actions  # noqa: SLF001 - argparse has no public list of them
    [verbs] = (action.choices for action in actions if isinstance(action.choices, dict))
    for action in (action for verb in verbs.values() for action in verb._actions):  # noqa: SLF001
        if action.dest in {"target", "targets"}:
            action.complete = lister
        elif action.type is Path:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
    return shtab.complete(whole, shell)
