"""sign what was proven on this machine, submit it to the public matrix, or check such files."""

import functools
import getpass
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.cli.options import add_output
from provision.cli.verbs.build import build_target
from provision.commands import smoke
from provision.commands.evidence import Evidence, emit, judge
from provision.commands.machine import host_reader, read_layers
from provision.commands.submissions import check_folder, submit
from provision.commands.suite import SmokeRequest
from provision.core.errors import UsageError
from provision.core.home import with_home
from provision.core.process import run
from provision.core.temporary import scratch
from provision.report.evidence import load_key, new_key
from provision.spec.reader import load_target
from provision.ui.results import show_build, show_evidence, show_submission
from provision.ui.smoke import show_smoke

_USUAL_KEY = Path("~/.ssh/id_ed25519")


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("emit", "verify", "submit", "check"),
        help="emit signs the last full report; verify checks files; submit puts one into the "
        "matrix; check checks the whole matrix",
    )
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="T|FILE",
        help="emit: the target; verify: the files, default all; submit: a file, or a target, which "
        "is built, checked and signed first",
    )
    add_output(parser, "emit: the file to write; default TARGET.evidence.json")
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="emit, submit: the private key; default ~/.ssh/id_ed25519; submit makes one if absent",
    )
    parser.add_argument(
        "--keys",
        type=Path,
        metavar="DIR",
        help="verify: the folder of public keys; default docs/evidence/keys",
    )
    parser.add_argument(
        "--since",
        metavar="COMMIT",
        default="",
        help="check: files may only have been added since, and none of these may be stale",
    )
    parser.set_defaults(wheelhouse=[], offline=False, no_smoke=True)  # of a build


def handle(call: Call) -> Outcome:
    options, project = call.arguments, call.project
    if options.action == "check":
        found = check_folder(project, options.since)
        if not found:
            call.console.note(f"there are no files in {project.evidence}")
        return _outcome(found, "refused")
    if options.action == "verify":
        files = [*map(Path, options.subjects)]
        files = files or sorted(project.evidence.rglob("*.json"))
        keys = options.keys or project.evidence / "keys"
        return _outcome(judge(project, files, keys), "refused", "stale")
    if len(options.subjects) != 1:
        raise UsageError(
            f"{options.action} is about one target",
            remedy="name one, such as cpu-linux",
        )
    (subject,) = options.subjects
    if options.action == "submit":
        return _submit(call, subject)
    key = with_home(options.key or _USUAL_KEY)
    target = load_target(project.specs, subject)
    file = options.output or Path(f"{target.name}.evidence.json")
    made = emit(project, target, file=file, key=key, passphrase=_asking(key))
    return Outcome([made], each(show_evidence))


def _outcome(found: list[Evidence], *bad: str) -> Outcome:
    refused = any(evidence.state in bad for evidence in found)
    return Outcome(found, each(show_evidence), findings_if(refused))


def _asking(key: Path) -> Callable[[], str]:
    """Return what asks for the passphrase of a key, once."""
    return functools.cache(lambda: getpass.getpass(f"passphrase of {key}: "))


def _submit(call: Call, subject: str) -> Outcome:
    file = Path(subject)
    if file.is_file() or subject.endswith(".json"):
        return Outcome(submit(call.project, file), show_submission)
    target = load_target(call.project.specs, subject)
    key = with_home(call.arguments.key) if call.arguments.key else _own_key(call)
    passphrase = _asking(key)
    load_key(key, passphrase)  # it takes a build and minutes until it signs
    built = build_target(call, target.name, host_reader(call.project))
    if not built.generation:
        return Outcome(built, show_build, findings_if(bad=True))
    request = SmokeRequest(call.project, target, read_layers(call.project), "full")
    checked = smoke.smoke(request, run, call.console)
    if checked.report.shortfall:
        return Outcome(checked, show_smoke, smoke.exit_code(checked.report.word))
    with scratch() as folder:
        file = folder / f"{target.name}.evidence.json"
        emit(call.project, target, file=file, key=key, passphrase=passphrase)
        return Outcome(submit(call.project, file), show_submission)


def _own_key(call: Call) -> Path:
    """Return the usual key, or one of Provision's own, which is made where there is none."""
    usual = with_home(_USUAL_KEY)
    private = call.project.private
    if usual.exists() or private is None:
        return usual
    own = private / "evidence-key"
    if not own.exists():
        new_key(own)
        call.console.note(f"made a key to sign with, which is yours alone: {own}")
    return own
