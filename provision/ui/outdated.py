"""The view of what is newer than a lock."""

from provision.commands.audit import Audit
from provision.commands.outdated import Newer, Outdated
from provision.core.text import plural
from provision.ui.console import Console


def show_outdated(result: Outdated, console: Console) -> None:
    """Print what is newer, what holds it and the edit; then the known vulnerabilities."""
    if result.error:
        console.error(result.error)
        return
    newer = plural(len(result.newer), "requirement")
    console.line(f"{result.target}: {newer} with a newer version", "bold")
    for one in result.newer:
        _show_newer(one, console)
    if result.later:
        count = f"{result.later} of {plural(result.packages, 'package')}"
        console.line(f"  the cut-off alone, moved to today, changes {count}")
    _show_audit(result.audit or Audit(), console)


def _show_newer(one: Newer, console: Console) -> None:
    locks = f"{one.locks} locks" if one.locks else "would not lock"
    style = "green" if one.locks and not one.driver else "yellow"
    console.line(f"  {one.name} {one.locked}, newest {one.newest}: {locks}", style)
    for held in one.held_by:
        console.line(f"    held by {held}")
    if one.driver:
        console.line(f'    write `driver = "{one.driver}"` into [hardware] first')
    for command in one.commands:
        console.line(f"    {command}")


def _show_audit(audit: Audit, console: Console) -> None:
    if audit.not_looked_up:
        console.note(f"known vulnerabilities: not looked up ({audit.not_looked_up})")
    for bad in audit.vulnerabilities:
        fixed = f", fixed in {', '.join(bad.fixed)}" if bad.fixed else ""
        reason = f": {bad.reason}" if bad.reason else ""
        text = f"  {bad.state} {bad.id}: {bad.package} {bad.version}{fixed}{reason}"
        console.line(text, "bold red" if bad.bad else None)
