"""print the completion script of a shell."""

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
# Functions that print the targets of the folder in which TAB is pressed. shtab's own way to call a
# command expands its output a second time in bash, and reads it once, at the start, in zsh.
_FUNCTION = {
    "bash": """_provision_targets() {
  local name
  while IFS= read -r name; do
    [[ "$name" == "$1"* ]] && printf '%%s\\n' "$name"
  done < <(%s completion targets 2>/dev/null)
}""",
    "zsh": """_provision_targets() {
  local -a names
  names=(${(f)"$(%s completion targets 2>/dev/null)"})
  compadd "$@" -a names
}""",
    "fish": """function _provision_targets
  %s completion targets 2>/dev/null
end""",
    "powershell": """function _provision_targets {
  param([string]$WordToComplete)
  & %s completion targets 2>$null | Where-Object { $_.StartsWith($WordToComplete) }
}""",
}
_TARGETS = dict.fromkeys(_FUNCTION, "_provision_targets") | {
    "fish": "(_provision_targets)"
}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "powershell", "targets"),
        metavar="SHELL",
        help="bash, zsh, fish or powershell; `targets` prints the targets' names",
    )


def handle(call: Call) -> Outcome:
    shell = call.arguments.shell
    if shell == "targets":
        text = "".join(f"{name}\n" for name in target_names(call.project.specs))
    else:
        text = _script(shell)
    return Outcome(text, lambda text, _: print_text(text))


def _script(shell: str) -> str:
    whole = main.parser()
    action: Any  # shtab reads one attribute more of it
    for verb in main.parsers(whole).values():
        for action in verb._actions:  # noqa: SLF001 - argparse has no public list of them
            if action.dest in {"target", "targets"}:
                action.complete = _TARGETS
            elif action.type is Path:
                is_folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if is_folder else shtab.FILE
    functions = _FUNCTION[shell] % _program(shell)
    return shtab.complete(whole, shell, preamble=functions)


def _program(shell: str) -> str:
    """Return how a shell calls this program, whatever is in its path."""
    name = program_name()
    if name == "provision":
        return name
    path = str(Path(name).absolute())
    if shell == "powershell":
        return "'{}'".format(path.replace("'", "''"))
    return shlex.quote(path)
