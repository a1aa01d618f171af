"""print what completes these commands in a shell."""

from provision.cli.call import Call, Parser
from provision.core.errors import Exit

ANYWHERE = True


def add_arguments(parser: Parser) -> None:
    shells = ("bash", "zsh", "fish", "powershell")
    parser.add_argument("shell", choices=(*shells, "targets"), help="`targets`: only their names")


def handle(call: Call) -> int:
    import shlex
    from pathlib import Path

    from provision.core.program import program_name
    from provision.spec.reader import target_names
    from provision.ui.console import print_text

    if (shell := call.arguments.shell) == "targets":
        print_text("".join(f"{name}\n" for name in target_names(call.project.specs)))
        return Exit.OK
    import shtab

    from provision.cli.main import parser

    name = program_name()
    own = name if name == "provision" else shlex.quote(str(Path(name).absolute()))
    lister = shtab.cmd(f"{'& ' * (shell == 'powershell')}{own} completion targets")
    whole = parser()
    [verbs] = (each.choices for each in whole._actions if isinstance(each.choices, dict))  # noqa: SLF001
    for action in (action for verb in verbs.values() for action in verb._actions):  # noqa: SLF001
        if action.dest in {"target", "targets"}:
            action.complete = lister
        elif action.type is Path:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
    print_text(shtab.complete(whole, shell))
    return Exit.OK
