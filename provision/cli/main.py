"""The entry point: the frame of the parser, and the one place where errors are caught."""

import argparse
import ast
import gc
import importlib
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

from provision import __version__
from provision.cli.call import Call
from provision.cli.help import Formatter
from provision.cli.options import add_common
from provision.core.errors import Exit, ProvisionError, UsageError
from provision.core.failures import as_error
from provision.core.ownership import require_own_project
from provision.core.process import interrupt
from provision.core.program import program_name
from provision.core.project import Project, find_project
from provision.core.text import nearest
from provision.ui.console import Console, open_streams, print_json, show_log

# Of argparse: an option that is not known, or a choice and what there is to choose from.
_WRONG = re.compile(
    r"(?:unrecognized .*?(--)|.* choice: ')([^'= ]*)(?:' \(choose from (.+)\))?"
)


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong with a command line: with ``--json`` that is a document, too."""

    def error(self, message: str) -> NoReturn:
        remedy = f"`{self.prog.replace('provision', program_name(), 1)} --help`"
        if wrong := _WRONG.match(message):
            dashes, word, choices = wrong.groups()
            known = choices or " ".join(self._option_string_actions)
            meant = nearest(word, re.findall(r"\w[\w-]+", known))
            if meant:
                remedy = f"did you mean `{dashes or ''}{meant}`? See {remedy}"
            if meant or " VERB:" in message:  # of which there are too many to be read
                message = message.partition(" (choose")[0]
        raise UsageError(message, evidence=self.format_usage().strip(), remedy=remedy)

    def parse_known_args(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        namespace: argparse.Namespace | None = None,
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all but an optional program, whose place argparse ends at the first option."""
        words = list(sys.argv[1:] if args is None else args)
        program = []
        actions = [each for each in self._actions if each.dest == "command"]
        if "--" in words and actions and actions[0].nargs == "*":
            place = words.index("--")
            words, program = words[:place], words[place + 1 :]
        arguments, unknown = super().parse_known_args(words, namespace)
        if program:
            arguments.command = program
        return arguments, unknown


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see :class:`provision.core.errors.Exit`."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    open_streams()
    if not words:
        parser([]).print_help()
        return Exit.USAGE
    words = mark_command(words)
    typed = words[: words.index("--")] if "--" in words else words
    arguments = argparse.Namespace(
        verb=None,
        project=None,
        json="--json" in typed,
        quiet=False,
        debug=False,
        verbose=False,
    )
    # Not what the caller chose: a shell lets what it starts in the background ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    # `timeout`, schedulers and CI servers end a command so: it undoes what is half done.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        _parse(words, len(typed), arguments)
        if arguments.verbose:
            show_log()
        return _dispatch(arguments)
    except KeyboardInterrupt:
        ended = ProvisionError("interrupted; no file is left half written")
        ended.exit_code = Exit.INTERRUPTED
        code = _fail(arguments, ended)
    except Exception as error:  # noqa: BLE001 - the one place where all of them are caught
        code = _fail(arguments, error)
    # Of a scheduler's command, no other code than 0 and 1 says anything about the node.
    return Exit.USAGE if getattr(arguments, "contract", None) else code


def mark_command(words: Sequence[str]) -> list[str]:
    """The words with ``--`` before the command of ``run``: its options are its own."""
    named = 0  # of the verb and the target
    places = iter(range(len(words)))
    for place in places:
        word = words[place]
        if word == "--" or (not named and not word.startswith("-") and word != "run"):
            break
        if named == 2 and not word.startswith("-"):
            return [*words[:place], "--", *words[place:]]
        if not word.startswith("-"):
            named += 1
        elif word == "-C" or _begins(word, "--project") or _begins(word, "--env"):
            next(places, None)  # the option's value
    return list(words)


def _begins(word: str, option: str) -> bool:
    """Whether a word is a long option: argparse takes it by any beginning of its name."""
    return len(word) > 2 and option.startswith(word)


def _interrupt(*_: object) -> None:
    """End the processes that other threads wait for, so that a signal ends the command at once."""
    if interrupt():
        raise KeyboardInterrupt


def _dispatch(arguments: argparse.Namespace) -> int:
    console = Console(
        program_name(),
        quiet=arguments.quiet or arguments.json,
        aside=arguments.json,
        detailed=arguments.verbose,
    )
    contract = _keeps_contract(arguments)
    if contract:
        console.alive = False  # a verdict is printed at any moment
    project = _project(arguments)
    if not arguments.project:
        target = getattr(arguments, "target", None)
        require_own_project(project, target if isinstance(target, str) else None)
    call = Call(arguments, project, console)
    gc.freeze()  # all that the verb needs is loaded; see provision.cli.isolated
    gc.enable()
    if contract:
        from provision.cli.contract import Contract  # noqa: PLC0415 - as a verb

        # Even where the caller lets it ignore them: the scheduler waits for a verdict.
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, _interrupt)
        return Contract(call).keep()
    try:
        outcome = arguments.handle(call)
    finally:
        console.close()
    if isinstance(outcome, int):  # of `run`
        return outcome
    if arguments.json:
        print_json(arguments.verb, outcome.result, ok=outcome.code == Exit.OK)
    else:
        outcome.show(console)
    return int(outcome.code)


def _keeps_contract(arguments: argparse.Namespace) -> bool:
    """Whether a command is to keep the contract; its other options mean nothing without it."""
    if "contract" not in arguments or arguments.contract:
        return "contract" in arguments
    for name in ("output", "verdicts", "node", "idle", "time_limit"):
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has no meaning without --contract")
    return False


def _project(arguments: argparse.Namespace) -> Project:
    start = (arguments.project or Path.cwd()).absolute()
    problem = ""
    if start.exists() and not start.is_dir():
        problem = "is a file"
    elif not start.exists() and arguments.verb != "init":
        problem = "does not exist"
    if problem:
        raise UsageError(f"{start} {problem}", remedy="name the folder of a project")
    try:
        return find_project(start)
    except UsageError:
        if not arguments.anywhere:
            raise
        return Project(start)  # what it has not is shipped


def _fail(arguments: argparse.Namespace, raised: Exception) -> int:
    error = as_error(raised)
    if arguments.json:
        print_json(arguments.verb, {"error": error}, ok=False)
    console = Console(program_name(), aside=True)
    if arguments.debug:
        # Through the console: what a library raised may name an address with its password.
        console.line("".join(traceback.format_exception(raised)))
    console.error(error)
    return int(error.exit_code)


def verb_names() -> list[str]:
    """The name of every verb, sorted: of each module in ``verbs``."""
    # A directory listing, since importing every verb would be slow.
    return sorted(path.stem for path in Path(__file__).parent.glob("verbs/[a-z]*.py"))


def _parse(words: Sequence[str], typed: int, arguments: argparse.Namespace) -> None:
    """Add to ``arguments`` what a command line says, whose first ``typed`` words precede a ``--``."""
    frame = _common()
    frame.add_argument("words", nargs=argparse.REMAINDER)
    after, unknown = frame.parse_known_args(words)
    verb = after.words[0] if after.words else ""
    known = not unknown and verb in verb_names()
    # The overview and a wrong command line need no verb's options.
    _, left = parser([verb] if known else []).parse_known_args(words, arguments)
    if left:
        arguments.refuse(f"unrecognized arguments: {' '.join(left)}")
    if "command" in arguments and typed < len(words):
        arguments.command = words[typed + 1 :]  # argparse drops a `--` inside of it


def parser(verbs: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser of the command line: with some verbs alone, with all, or with none's options."""
    top = _Parser(
        prog="provision",
        parents=[_common()],
        formatter_class=Formatter,
        description="Reproducible PyTorch environments, one per kind of hardware.",
        epilog="Exit codes: 0 good, 1 findings, 2 usage or spec, 3 a tool or the network failed, "
        "4 and 5 a log without a known cause, 6 only slower than usual, 130 interrupted; `run` "
        "ends with its command's code, or as a shell with 127 or 126.",
    )
    top.add_argument("--version", action="version", version=f"provision {__version__}")
    added = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name in verbs or verb_names():
        summary = _summary(name)
        verb = added.add_parser(
            name,
            parents=[_common()],
            help=summary,
            description=summary,
            formatter_class=Formatter,
        )
        verb.set_defaults(refuse=verb.error)
        if verbs == []:
            continue
        # The one lazy import: a verb is loaded with all that it needs when it is typed.
        module = importlib.import_module(f"provision.cli.verbs.{name}")
        module.declare(verb)
        anywhere = getattr(module, "ANYWHERE", False)  # whether it needs no project
        verb.set_defaults(handle=module.handle, anywhere=anywhere)
    return top


@cache
def _summary(verb: str) -> str:
    """What a verb does: the first line of its module, which is read and not loaded."""
    text = Path(__file__).with_name("verbs").joinpath(f"{verb}.py").read_text("utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return docstring.partition("\n")[0].removesuffix(".")


def parsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb, by its name."""
    for action in top._actions:  # noqa: SLF001 - argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    raise LookupError("no verbs")


def _common() -> _Parser:
    """The options of every verb; a default would undo what stood before the verb."""
    common = _Parser("provision", add_help=False, argument_default=argparse.SUPPRESS)
    add_common(common)
    return common
