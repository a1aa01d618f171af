"""print what completes these commands in a shell."""

import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import shtab

from provision.cli import main
from provision.cli.call import Call, Outcome
from provision.core.program import program_name
from provision.spec.reader import target_names
from provision.ui.console import print_text

ANYWHERE = True


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "powershell", "targets"),
        metavar="SHELL",
        help="bash, zsh, fish, powershell, or targets for their names alone",
    )


def handle(call: Call) -> Outcome:
    shell = call.arguments.shell
    if shell == "targets":
        text = "".join(f"{name}\n" for name in target_names(call.project.specs))
    else:
        text = _script(shell)
    return Outcome(text, lambda text, _: print_text(text))


def _script(shell: str) -> str:
    program = program_name()
    if program != "provision":
        program = shlex.quote(str(Path(program).absolute()))
    if shell == "powershell":
        program = f"& {program}"
    whole = main.parser()
    action: Any  # shtab reads one attribute more of it
    for verb in main.parsers(whole).values():
        for action in verb._actions:  # noqa: SLF001 - argparse has no public list of them
            if action.dest in {"target", "targets"}:
                action.complete = shtab.cmd(f"{program} completion targets")
            elif action.type is Path:
                is_folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if is_folder else shtab.FILE
    return shtab.complete(whole, shell)
