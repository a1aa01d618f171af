"""sign what was proven on this machine, or verify such files."""

import getpass
from argparse import ArgumentParser
from pathlib import Path

from provision.cli.call import Call, Outcome, each, findings_if
from provision.cli.options import add_output
from provision.commands.evidence import emit, judge
from provision.core.errors import UsageError
from provision.core.home import with_home
from provision.spec.reader import load_target
from provision.ui.results import show_evidence


def declare(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action",
        choices=("emit", "verify"),
        help="emit signs the last full report; verify checks files",
    )
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="T|FILE",
        help="emit: the target; verify: the files, default all",
    )
    add_output(parser, "emit: the file to write; default TARGET.evidence.json")
    parser.add_argument(
        "--key",
        type=Path,
        default=Path("~/.ssh/id_ed25519"),
        metavar="FILE",
        help="emit: the private key; default ~/.ssh/id_ed25519",
    )
    parser.add_argument(
        "--keys",
        type=Path,
        metavar="DIR",
        help="verify: the folder of public keys; default docs/evidence/keys",
    )


def handle(call: Call) -> Outcome:
    options, project = call.arguments, call.project
    if options.action == "verify":
        files = [Path(subject) for subject in options.subjects]
        keys = options.keys or project.evidence / "keys"
        judged = judge(project, files or sorted(project.evidence.glob("*.json")), keys)
        bad = any(evidence.state != "valid" for evidence in judged)
        return Outcome(judged, each(show_evidence), findings_if(bad))
    if len(options.subjects) != 1:
        raise UsageError(
            "emit is about one target", remedy="name one, such as cpu-linux"
        )
    target = load_target(project.specs, options.subjects[0])
    key = with_home(options.key)
    signed = emit(
        project,
        target,
        file=options.output or Path(f"{target.name}.evidence.json"),
        key=key,
        passphrase=lambda: getpass.getpass(f"passphrase of {key}: "),
    )
    return Outcome([signed], each(show_evidence))
