"""The view of what is newer than a lock; its text is in ``outdated.j2``."""

from pathlib import Path

from provision.commands.outdated import Outdated
from provision.core.program import program_name
from provision.ui.console import Console, to_jsonable


def show_outdated(result: Outdated, console: Console) -> None:
    """Print what is newer, what holds it and the edit; then the known vulnerabilities."""
    from jinja2 import Template  # noqa: PLC0415 - slow to import

    text = Path(__file__).with_suffix(".j2").read_text(encoding="utf-8")
    lines = Template(text, trim_blocks=True).render(to_jsonable(result), program=program_name())
    for line in lines.splitlines():
        command = line.removeprefix("$ ")
        console.line(line) if command == line else console.command(command)
