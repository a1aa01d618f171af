"""what is wrong with an environment, a log, this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.cli.outcome import Outcome, findings_if

if TYPE_CHECKING:
    import argparse

    from provision.core.findings import Diagnosis
    from provision.core.project import Project
    from provision.ui.console import Console

ANYWHERE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subjects of a diagnosis."""
    subjects = parser.add_mutually_exclusive_group()
    subjects.add_argument(
        "--python", metavar="PATH", help="an interpreter, its folder, or a command such as python3"
    )
    subjects.add_argument("--log", metavar="FILE", help="what a program printed; - reads stdin")
    parser.add_argument(
        "--target", help="what the environment should be; without PATH, the one built here"
    )


def handle(arguments: argparse.Namespace, project: Project, _: Console) -> Outcome[Diagnosis]:
    """Diagnose a log, an environment or this machine."""
    from provision.ui.doctor import show_diagnosis

    if arguments.log:
        from provision.commands.diagnose import diagnose_log_file

        result = diagnose_log_file(arguments.log)
    else:
        from provision.commands.diagnose import diagnose

        result = diagnose(project, python=arguments.python, target=arguments.target)
    return Outcome(result, show_diagnosis, findings_if(result.bad))
