"""The view of what is newer than the locks: a row for each package, with its targets."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from provision.core.text import plural
from provision.ui.console import Console

if TYPE_CHECKING:  # a verb loads what makes its own result
    from provision.commands.outdated import Newer, Outdated, Vulnerability

_COLUMNS = ("package", "locked", "newest", "uploaded", "required as", "targets")


def show_outdated(results: list[Outdated], console: Console) -> None:
    """Print what has a newer version, and what is known of the locked ones; each of it once."""
    compared = []
    for result in results:
        if result.error:
            console.error(result.error)
        else:
            compared.append(result)
    _show_newer(compared, console)
    _show_vulnerabilities(compared, console)


def _show_newer(results: list[Outdated], console: Console) -> None:
    targets: dict[tuple[str, ...], list[str]] = defaultdict(list)
    current = []
    for result in results:
        for newer in result.newer or ():
            targets[_newer_row(newer)].append(result.target)
        if result.newer == ():
            current.append(result.target)
    rows = [(*row, ", ".join(names)) for row, names in sorted(targets.items())]
    if rows:
        console.table(_COLUMNS, rows, spare=("uploaded", "required as"))
    if current:
        console.line(f"nothing is newer for {', '.join(current)}", "green")


def _newer_row(newer: Newer) -> tuple[str, ...]:
    # A catalog does not say when a file was uploaded.
    day = newer.uploaded if newer.index == "default" else ""
    return newer.name, newer.locked, newer.newest, day, newer.requirement


def _show_vulnerabilities(results: list[Outdated], console: Console) -> None:
    reasons: dict[str, list[str]] = defaultdict(list)
    vulnerable: dict[Vulnerability, list[str]] = defaultdict(list)
    clean = []
    for result in results:
        if result.not_looked_up:
            reasons[result.not_looked_up].append(result.target)
        elif not result.vulnerabilities:
            clean.append(result.target)
        for vulnerability in result.vulnerabilities:
            vulnerable[vulnerability].append(result.target)
    for reason, targets in reasons.items():
        count = plural(len(targets), "target")
        line = f"known vulnerabilities of {count}: not looked up ({reason})"
        console.line(line, "yellow")
    for vulnerability, targets in vulnerable.items():
        line = f"{_vulnerability(vulnerability)} ({', '.join(targets)})"
        console.line(line)
    if clean:
        console.line(f"no known vulnerability: {', '.join(clean)}", "green")


def _vulnerability(bad: Vulnerability) -> str:
    line = f"{bad.state} {bad.id}: {bad.package} {bad.version}"
    if bad.fixed:
        line += f", fixed in {', '.join(bad.fixed)}"
    if bad.reason:
        line += f": {bad.reason}"
    return line
