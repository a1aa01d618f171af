"""print the completion script of a shell."""

import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import shtab

from provision.cli import main
from provision.cli.call import Call, Outcome
from provision.core.program import program_name
from provision.lockfile.names import locked_names
from provision.spec.reader import target_names
from provision.ui.console import print_text

ANYWHERE = True
# Functions that print the names of a kind in the folder in which TAB is pressed. shtab's own way to
# call a command expands its output a second time in bash, and reads it once, at the start, in zsh.
_FUNCTION = {
    "bash": """_provision_WORD() {
  local name
  while IFS= read -r name; do
    [[ "$name" == "$1"* ]] && printf '%%s\\n' "$name"
  done < <(%s completion WORD 2>/dev/null)
}""",
    "zsh": """_provision_WORD() {
  local -a names
  names=(${(f)"$(%s completion WORD 2>/dev/null)"})
  compadd "$@" -a names
}""",
    "fish": """function _provision_WORD
  %s completion WORD 2>/dev/null
end""",
    "powershell": """function _provision_WORD {
  param([string]$WordToComplete)
  & %s completion WORD 2>$null | Where-Object { $_.StartsWith($WordToComplete) }
}""",
}
# What an argument names -> the kind; its names are those of this project.
_KINDS = {"target": "targets", "targets": "targets", "package": "packages"}


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=("bash", "zsh", "fish", "powershell", "targets", "packages"),
        metavar="SHELL",
        help="bash, zsh, fish or powershell; `targets` prints the targets' names, `packages` those of "
        "locked packages",
    )


def handle(call: Call) -> Outcome:
    shell = call.arguments.shell
    if shell in _KINDS.values():
        names = target_names(call.project.specs)
        if shell == "packages":
            names = locked_names(map(call.project.lock, names))
        text = "".join(f"{name}\n" for name in names)
    else:
        text = _script(shell)
    return Outcome(text, lambda text, _: print_text(text))


def _script(shell: str) -> str:
    whole = main.parser()
    action: Any  # shtab reads one attribute more of it
    for verb in main.parsers(whole).values():
        for action in verb._actions:  # noqa: SLF001 - argparse has no public list of them
            if kind := _KINDS.get(action.dest):
                name = f"_provision_{kind}"
                action.complete = dict.fromkeys(_FUNCTION, name) | {"fish": f"({name})"}
            elif action.type is Path:
                is_folder = action.metavar == "DIR"
                action.complete = shtab.DIRECTORY if is_folder else shtab.FILE
    function = _FUNCTION[shell] % _program(shell)
    functions = [function.replace("WORD", kind) for kind in ("targets", "packages")]
    return shtab.complete(whole, shell, preamble="\n".join(functions))


def _program(shell: str) -> str:
    """Return how a shell calls this program, whatever is in its path."""
    name = program_name()
    if name == "provision":
        return name
    path = str(Path(name).absolute())
    if shell == "powershell":
        return "'{}'".format(path.replace("'", "''"))
    return shlex.quote(path)
