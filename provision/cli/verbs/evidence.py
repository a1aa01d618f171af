"""signed proof of what was proven here, or the judgement of such files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, each, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.commands.evidence import Evidence
    from provision.core.project import Project
    from provision.ui.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, and what it is about."""
    parser.add_argument("action", choices=("emit", "verify"))
    parser.add_argument(
        "subjects", nargs="*", metavar="T|FILE",
        help="emit: the target; verify: files, by default all of docs/evidence",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="emit: default TARGET.evidence.json"
    )
    parser.add_argument(
        "--key", type=Path, metavar="FILE", default=Path.home() / ".ssh" / "id_ed25519",
        help="emit: the private key; default ~/.ssh/id_ed25519",
    )  # fmt: skip
    parser.add_argument(
        "--keys", type=Path, metavar="DIR", help="verify: public keys; default docs/evidence/keys"
    )


def handle(arguments: argparse.Namespace, project: Project, _: Console) -> Outcome[list[Evidence]]:
    """Sign or verify; exit code 1 if a file is refused or stale."""
    from provision.commands.evidence import judge
    from provision.ui.evidence import show_evidence

    if arguments.action == "emit":
        return Outcome(_emit(arguments, project), each(show_evidence))
    files = list(map(Path, arguments.subjects)) or sorted(project.evidence.glob("*.json"))
    found = judge(project, files, arguments.keys or project.evidence / "keys")
    return Outcome(found, each(show_evidence), findings_if(any(e.state != "valid" for e in found)))


def _emit(arguments: argparse.Namespace, project: Project) -> list[Evidence]:
    import getpass

    from provision.commands.evidence import emit
    from provision.core.errors import UsageError
    from provision.spec.reader import load_target

    if len(arguments.subjects) != 1:
        raise UsageError("emit is about one target", remedy="name one, such as cpu-linux")
    target = load_target(project.specs, arguments.subjects[0])
    file = arguments.output or Path(f"{target.name}.evidence.json")

    def passphrase() -> str:
        return getpass.getpass(f"passphrase of {arguments.key}: ")

    return [emit(project, target, file=file, key=arguments.key, passphrase=passphrase)]
