"""The entry point: the frame of the parser, and the one place where errors are caught."""

import argparse
import importlib
import itertools
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from provision import __version__
from provision.cli.call import Call, is_contract
from provision.cli.help import Formatter
from provision.cli.options import add_options
from provision.core.errors import Exit, ProvisionError, UsageError
from provision.core.ownership import require_own_project
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
            known = wrong[3] or " ".join(self._option_string_actions)
            if close := nearest(wrong[2], re.findall(r"\w[\w-]+", known)):
                remedy = f"did you mean `{wrong[1] or ''}{close}`? See {remedy}"
            if close or " VERB:" in message:  # of which there are too many to be read
                message = message.partition(" (choose")[0]
        raise UsageError(message, evidence=self.format_usage().strip(), remedy=remedy)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see :class:`provision.core.errors.Exit`."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if "run" in words:
        from provision.cli.verbs.run import mark_command  # noqa: PLC0415 - of this verb alone

        words = mark_command(words)
    open_streams()
    if not words:
        parser().print_help()
        return Exit.USAGE
    own = [*itertools.takewhile("--".__ne__, words)]
    switches = {
        "json": "--json" in own,
        "quiet": False,
        "debug": False,
        "verbose": False,
    }
    arguments = argparse.Namespace(verb=None, project=None, **switches)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _parse(words, len(own), arguments)
        if arguments.verbose:
            show_log()
        return _dispatch(arguments)
    except KeyboardInterrupt:
        ended = ProvisionError(
            "interrupted; what was complete stays, the rest is as it was before"
        )
        ended.exit_code = Exit.INTERRUPTED
        code = _fail(arguments, ended)
    except Exception as error:  # noqa: BLE001 - the one place where all of them are caught
        code = _fail(arguments, error)
    # Of a scheduler's command, no other code than 0 and 1 says anything about the node.
    return Exit.USAGE if getattr(arguments, "contract", None) else code


def _interrupt(*_: object) -> None:
    """End the processes that other threads wait for, so that Ctrl-C ends the command at once."""
    # What is not loaded has started nothing.
    names = ("provision.core.process", "provision.core.interruption")
    loaded = next(filter(None, map(sys.modules.get, names)), None)
    if not loaded or loaded.interrupt():
        raise KeyboardInterrupt


def _dispatch(arguments: argparse.Namespace) -> int:
    console = Console(
        program_name(), quiet=arguments.quiet or arguments.json, aside=arguments.json
    )
    # Commands are printed in between, and a verdict at any moment.
    console.alive &= not (arguments.verbose or is_contract(arguments))
    project = _project(arguments)
    if not arguments.project:
        target = getattr(arguments, "target", None)
        require_own_project(project, target if isinstance(target, str) else None)
    call = Call(arguments, project, console)
    if is_contract(arguments):
        from provision.cli.contract import Contract  # noqa: PLC0415 - loads much

        # A shell that starts a command in the background lets it ignore Ctrl-C.
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, _interrupt)
        return Contract(call).keep()
    try:
        outcome = arguments.handle(call)
    finally:
        console.close()
    # Verbs that print or run something themselves, such as `sbom` and `run`, return an exit code.
    if isinstance(outcome, int):
        return int(outcome)
    if arguments.json:
        print_json(arguments.verb, outcome.result, ok=outcome.code == Exit.OK)
    else:
        outcome.show(console)
    return int(outcome.code)


def _project(arguments: argparse.Namespace) -> Project:
    start = (arguments.project or Path.cwd()).absolute()
    if not start.is_dir() and (start.exists() or arguments.verb != "init"):
        what = f"{start} {'is a file' if start.exists() else 'does not exist'}"
        raise UsageError(what, remedy="name the folder of a project")
    try:
        return find_project(start)
    except UsageError:
        if not arguments.anywhere:
            raise
        return Project(start)  # what it has not is shipped


def _fail(arguments: argparse.Namespace, error: Exception) -> int:
    from provision.core.failures import as_error  # noqa: PLC0415 - not for what goes well

    known = as_error(error)
    if arguments.json:
        print_json(arguments.verb, {"error": known}, ok=False)
    console = Console(program_name(), aside=True)
    if arguments.debug:
        import traceback  # noqa: PLC0415 - as above

        # Through the console: what a library raised may name an address with its password.
        console.line("".join(traceback.format_exception(error)))
    console.error(known)
    return int(known.exit_code)


def verb_names() -> list[str]:
    """Return the name of every verb, sorted: of each module in ``verbs``."""
    # Not __init__.py. A directory listing, since importing every verb would be slow.
    return sorted(path.stem for path in Path(__file__).parent.glob("verbs/[a-z]*.py"))


def _parse(words: Sequence[str], own: int, found: argparse.Namespace) -> None:
    """Add to ``found`` what a command line says, the first ``own`` words of it before a ``--``."""
    # One verb's module is enough: importing all takes longer than a build with nothing to do.
    frame = _common()
    frame.add_argument("words", nargs=argparse.REMAINDER)
    given, unknown = frame.parse_known_args(words)
    known = not unknown and given.words[:1] and given.words[0] in verb_names()
    _, left = parser(given.words[:1] if known else None).parse_known_args(words, found)
    if left:
        found.refuse(f"unrecognized arguments: {' '.join(left)}")
    if "command" in found and own < len(words):
        found.command = words[own + 1 :]  # argparse drops a `--` inside of it


def parser(verbs: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of some verbs, or of the whole command line."""
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
    for name in verb_names() if verbs is None else verbs:
        module = importlib.import_module(f"provision.cli.verbs.{name}")
        summary = (module.__doc__ or "").partition("\n")[0].removesuffix(".")
        verb = added.add_parser(
            name, parents=[_common()], help=summary, description=summary
        )
        verb.formatter_class = Formatter
        anywhere = getattr(module, "ANYWHERE", False)  # whether it needs no project
        verb.set_defaults(handle=module.handle, anywhere=anywhere, refuse=verb.error)
        add_options(verb, name, verb_names())
    return top


def _common() -> _Parser:
    """Return the options of every verb; a default would undo what stood before the verb."""
    common = _Parser("provision", add_help=False, argument_default=argparse.SUPPRESS)
    add_options(common, "every", ())
    return common
