"""Views of results that take a few lines each."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.findings import Diagnosis
from provision.core.text import plural, size
from provision.ui.console import Console, print_text
from provision.ui.template import template

if TYPE_CHECKING:
    from provision.commands.build import BuildResult
    from provision.commands.detect import Detection
    from provision.commands.edit_spec import Edited
    from provision.commands.export import Export
    from provision.commands.generations import RolledBack
    from provision.commands.lock import (
        ArtifactChange,
        Confirmation,
        Freshness,
        LockResult,
    )
    from provision.commands.status import ProjectStatus
    from provision.commands.update import RefreshResult
    from provision.environment.verify import Verification
    from provision.report.fleet import Fleet

_LINES = 40  # of each part of a fleet


def show_overview(result: ProjectStatus, console: Console) -> None:
    """Print a table, a row per target."""
    columns = ("target", "platform", "lock", "built", "last checks", "what it is")
    rows = [
        (r.name, r.platform, r.lock, r.proof, r.smoke, r.summary) for r in result.rows
    ]
    console.table(columns, rows)


def show_detection(result: Detection, console: Console) -> None:
    """Print the host, its GPUs, and each target with the reasons."""
    host = result.host
    around = f" in {', '.join(host.surroundings)}" if host.surroundings else ""
    console.line(f"{host.platform}, kernel {host.kernel}{around}", "bold")
    for gpu in host.gpus:
        found = gpu.driver
        driver = f"driver {found.name} {found.version or ''}" if found else "no driver"
        console.line(f"  {gpu.name} at {gpu.address}, {driver}")
    if not host.gpus:
        console.line("  no GPU")
    for name, variable in result.hidden:
        console.remark(f"{name} is hidden by {variable}")
    marks, styles = (
        {result.chosen: "->"},
        {"fits": "green", "blocked": "yellow", "no": "dim"},
    )
    rows = [
        (
            f"{marks.get(fit.target, '  ')} {fit.target}",
            fit.verdict,
            "; ".join(fit.reasons),
        )
        for fit in result.fits
    ]
    console.table(
        ("   target", "verdict", "why"), rows, *(styles[row[1]] for row in rows)
    )
    for advice in result.advice:
        console.remark(advice)


def show_refresh(result: RefreshResult, console: Console) -> None:
    """Print what was added, vanished, or was refused."""
    template("refresh")(result, console)
    for error in result.errors:
        console.error(error)


def show_export(result: Export, console: Console) -> None:
    """Print the text, or where it was written; and what the format does not hold."""
    if result.file:
        console.line(f"{result.target} as {result.format}: {result.file}", "bold green")
    else:
        print_text(result.text)
    if result.lost:
        console.note(f"this format does not hold {'; '.join(result.lost)}")
    for note in result.notes:
        console.note(note)


def show_verification(result: Verification, console: Console) -> None:
    """Print the findings, or the extent of the comparison."""
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        depth = (
            f"{size(result.size)}, every {'hash' if result.tree else 'size'} compared"
        )
        counts = f"{result.distributions} packages, {result.files} files"
        console.line(f"as locked: {counts}, {depth}", "green")


def show_rollback(result: RolledBack, console: Console) -> None:
    """Print the generation that is current now."""
    record = result.now.record
    console.line(
        f"{result.target}: {result.before} -> {result.now.folder.name}", "green"
    )
    console.line(
        f"in use now: built {record.built}, Python {record.python}, {record.proof}"
    )


def show_diagnosis(result: Diagnosis, console: Console, log: str | None = None) -> None:
    """Print the facts, then the findings, and where they are from a log, what to do about doubt."""
    width = max(map(len, result.facts), default=0) + 1
    for name, value in result.facts.items():
        console.line(f"  {name + ':':<{width}} {value}", "dim", width + 3)
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        console.line(f"{result.patient}: no known fault was found", "green")
    elif log:
        import shlex  # noqa: PLC0415 - only where it is shown

        file = "FILE" if log == "-" else shlex.quote(log)
        console.note(
            f"these findings come from rules, which can be wrong; `provision doctor --log {file}"
            " --report` makes one short text of it, for somebody else or a chatbot to answer"
        )


def show_lock(result: LockResult, console: Console) -> None:
    """Print one target's new lock and what changed in it."""
    state = "changed" if result.differs else "unchanged"
    console.line(
        f"{result.target}: {plural(result.packages, 'package')}, {state}", "green"
    )
    _changes(result.changes, console)


def show_edited(result: Edited, console: Console) -> None:
    """Print one edited target's new lock, and its build or how to build it."""
    show_lock(result.lock, console)
    if result.build:
        show_build(result.build, console)
    else:
        console.line(f"not built; `{console.program} build {result.lock.target}`")


def show_confirmation(result: Confirmation, console: Console) -> None:
    """Print whether the second resolver accepts the lock, and the differences."""
    said = "would install something else" if result.differences else "accepts the lock"
    style = "bold red" if result.differences else "green"
    console.line(f"{result.target}: pip-tools {said}", style)
    _changes(result.differences, console)


def show_freshness(result: Freshness, console: Console) -> None:
    """Print whether one lock is fresh."""
    style = "bold red" if result.stale else "green"
    console.line(f"{result.target}: {result.stale or 'fresh'}", style)
    if result.open and not result.stale:
        names = ", ".join(result.open)
        console.line(f"  open, no digest of their RECORD is known: {names}", "yellow")


def _changes(changes: Iterable[ArtifactChange], console: Console) -> None:
    for change in changes:
        versions = f"{change.before or ''} -> {change.after or ''}".strip()
        console.line(
            f"  {change.kind:<8}{change.name} {versions} (via {', '.join(change.via)})"
        )


def show_build(result: BuildResult, console: Console) -> None:
    """Print the checks, the verdict, and what to do next."""
    from provision.ui.smoke import show_report, verdict  # noqa: PLC0415 - loads the reports' model

    if result.report:
        show_report(result.report, console)
    if result.generation is None:
        console.line(
            f"{result.target}: the checks failed, nothing was changed", "bold red"
        )
        console.line("`--no-smoke` builds it without them, so that it can be examined")
        return
    record = result.generation.record
    if result.plan is None and result.report is None:
        console.line(
            f"{result.target} is up to date ({record.proof}, built {record.built})",
            "green",
        )
    else:
        counts = f"{len(record.distributions)} packages, {record.files} files, {size(record.size)}"
        checks = f", {verdict(result.report)}" if result.report else ""
        said = f"{result.target} is ready: {counts}, every file as locked{checks}"
        console.line(said, "bold green")
    if record.proof == "unproven":
        console.remark(f"unproven: {record.reason}")
    elif record.proof == "skipped":
        left = f"`{console.program} smoke {result.target}`"
        console.remark(f"not proven: the checks were left out; {left}")
    show_next_steps(result.target, result.generation.folder, console)


def show_next_steps(target: str, folder: Path, console: Console) -> None:
    """Print the commands that use an environment, the current generation of a target."""
    console.line("Next:")
    console.command(f"{console.program} run {target} -- python your_script.py")
    console.command(f"{console.program} smoke {target} --full")
    if activation := _activation(folder):
        console.command(f"or activate it: {activation}")


def _activation(folder: Path) -> str:
    """Return the line that activates an environment; a conda prefix has no script for it."""
    current = folder.parent / "current"
    if (folder / "conda-meta").is_dir():
        return ""
    if sys.platform == "win32":
        # FAT, exFAT and network drives know no links, so `current` may be absent there.
        prefix = current if current.exists() else folder
        path = str(prefix / "Scripts" / "activate")
        return f'& "{path}"' if " " in path else path  # as PowerShell takes it
    return f"source {shlex.quote(str(current / 'bin' / 'activate'))}"


def show_fleet(result: Fleet, console: Console) -> None:
    """Print the nodes worst first, what changed, and the files that were left out."""
    console.table(("state", "nodes", "what"), result.lines[:_LINES])
    changed = [
        f"since the last round, {names}: {text}" for _, names, text in result.changed
    ]
    files = [f"left out {path}: {fault}" for path, fault in result.files]
    for text in (*changed[:_LINES], *files[:_LINES]):
        console.remark(text)
    if more := sum(
        max(0, len(each) - _LINES) for each in (result.lines, changed, files)
    ):
        console.remark(f"{more} more lines: --json and --html have all")
    counts = ", ".join(f"{count} {state}" for state, count in result.counts.items())
    console.line(
        counts or "no verdict was found", "bold red" if result.bad else "green"
    )
