"""The entry point: the frame of the parser, and the one place where errors are caught."""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from provision import __version__
from provision.cli.call import Call, is_contract
from provision.cli.help import Formatter
from provision.core.errors import Exit, UsageError
from provision.core.ownership import require_own_project
from provision.core.program import program_name
from provision.core.project import Project, find_project
from provision.ui.console import Console, open_streams, print_json, show_log

_VERBS = Path(__file__).with_name("verbs")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; see :class:`provision.core.errors.Exit`."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    # One verb's module is enough to parse a command that begins with it: importing all of them
    # takes longer than a build that has nothing to do.
    known = words[:1] if words[:1] and words[0] in verb_names() else None
    if known == ["run"]:
        from provision.cli.verbs.run import mark_command  # noqa: PLC0415 - of this verb alone

        words = ["run", *mark_command(words[1:])]
    open_streams()
    arguments = parser(known).parse_args(words)
    if arguments.verbose:
        show_log()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        return _dispatch(arguments)
    except KeyboardInterrupt:
        text = "interrupted; what was complete stays, and the rest is as it was before"
        Console(program_name(), aside=True).line(text)
        code = int(Exit.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the one place where all of them are caught
        code = _fail(arguments, error)
    # Of a scheduler's command, no other code than 0 and 1 says anything about the node.
    return Exit.USAGE if getattr(arguments, "contract", None) else code


def _interrupt(*_: object) -> NoReturn:
    """End the processes that other threads wait for, so that Ctrl-C ends the command at once."""
    if process := sys.modules.get("provision.core.process"):  # not loaded, nothing was started
        process.interrupt()
    raise KeyboardInterrupt


def _dispatch(arguments: argparse.Namespace) -> int:
    aside = arguments.json or getattr(arguments, "watch", False)  # stdout is the command's
    quiet = arguments.quiet or arguments.json
    console = Console(program_name(), quiet=quiet, aside=aside)
    # Commands are printed in between, and a verdict at any moment.
    console.alive &= not (arguments.verbose or is_contract(arguments))
    start = (arguments.project or Path.cwd()).absolute()
    try:
        project = find_project(start)
    except UsageError:
        if not arguments.anywhere:
            raise
        project = Project(start)  # what it has not is shipped
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
        print_json(arguments.verb, outcome.result)
    else:
        outcome.show(console)
    return int(outcome.code)


def _fail(arguments: argparse.Namespace, error: Exception) -> int:
    from provision.core.failures import as_error  # noqa: PLC0415 - not for what goes well

    known = as_error(error)
    if arguments.json:
        print_json(arguments.verb, {"error": known})
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
    return sorted(path.stem for path in _VERBS.glob("[a-z]*.py"))


def parser(verbs: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of some verbs, or of the whole command line."""
    top = argparse.ArgumentParser(
        prog="provision",
        formatter_class=Formatter,
        description="Reproducible PyTorch environments, one per kind of hardware.",
        epilog="Exit codes: 0 good, 1 findings, 2 usage or spec, 3 a tool or the network failed, "
        "4 and 5 a log without a known cause, 130 interrupted; `run` ends with its command's code, "
        "or as a shell with 127 or 126.",
    )
    top.add_argument("--version", action="version", version=f"provision {__version__}")
    added = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    common.add_argument("--project", type=Path, metavar="DIR", help="the project to work in")
    common.add_argument("-q", "--quiet", action="store_true", help="leave out the steps")
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    common.add_argument("-v", "--verbose", action="store_true", help="show every command that runs")
    for name in verb_names() if verbs is None else verbs:
        module = importlib.import_module(f"provision.cli.verbs.{name}")
        summary = (module.__doc__ or "").partition("\n")[0].removesuffix(".")
        verb = added.add_parser(name, parents=[common], help=summary, description=summary)
        verb.formatter_class = Formatter
        anywhere = getattr(module, "ANYWHERE", False)  # whether it needs no project
        verb.set_defaults(handle=module.handle, anywhere=anywhere)
        if hasattr(module, "add_arguments"):
            module.add_arguments(verb)
    return top
