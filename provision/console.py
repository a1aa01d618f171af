"""The only renderer: words for people on stderr, results as JSON on stdout."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console as RichConsole
from rich.table import Table
from rich.text import Text

from provision.build import Built
from provision.detect import Detection, Verdict
from provision.finding import Finding, Level
from provision.lock import LockResult
from provision.report import Check, Report
from provision.targets import Overview
from provision.verify import Verification
from provision.words import plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provision.errors import ProvisionError

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan"}
SCHEMA = 1


class Console:
    """What a person sees; also listens to the progress of verbs.

    Colour and width follow the terminal; ``NO_COLOR`` is honoured by rich.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        self._rich = RichConsole(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print a line of words."""
        self._rich.print(text, style=style)

    def table(self, table: Table) -> None:
        """Print a table, within the terminal's width."""
        self._rich.print(table, soft_wrap=False)

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self.line(f"· {text}", "dim")

    def note(self, text: str) -> None:
        """Say something that should stay readable afterwards."""
        self.line(f"! {text}", "yellow")

    def error(self, error: ProvisionError) -> None:
        """Print an error: what failed, the evidence, the cause, the remedy."""
        self.line(f"error: {error.what}", "bold red")
        for name in ("evidence", "cause", "remedy"):
            if text := getattr(error, name):
                self._labelled(name, text)

    def finding(self, finding: Finding) -> None:
        """Print a finding in the same order."""
        self.line(f"{finding.level}: {finding.symptom} [{finding.code}]", _STYLES[finding.level])
        self._labelled("evidence", "\n".join(finding.evidence))
        self._labelled("cause", finding.cause)
        self._labelled("remedy", finding.remedy)

    def _labelled(self, label: str, text: str) -> None:
        first, *rest = text.splitlines() or [""]
        self._rich.print(Text.assemble((f"  {label + ':':<10}", "bold"), first))
        for more in rest:
            self.line(" " * 12 + more)


def print_json(verb: str, result: object) -> None:
    """Print a result on stdout: ``{"schema": 1, "verb": …, "result": …}``."""
    document = {"schema": SCHEMA, "verb": verb, "result": plain(result)}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def plain(value: Any) -> Any:  # noqa: ANN401 - whatever a verb returns
    """Return a result as JSON knows it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


@functools.singledispatch
def show(result: object, console: Console) -> None:
    """Print a verb's result for a person."""
    raise TypeError(f"{console.program} has no view for {type(result).__name__}")


@show.register
def _(result: Built, console: Console) -> None:
    if result.report:
        show(result.report, console)
    if result.generation is None:
        console.line(f"{result.target}: the checks failed, nothing was changed", "bold red")
        console.line("`--no-smoke` builds it all the same, for a closer look")
        return
    made = result.generation.record
    if result.plan is None and result.report is None:
        console.line(f"{result.target} is up to date ({made.proof}, built {made.built})", "green")
    else:
        console.line(
            f"{result.target} is ready: {len(made.distributions)} packages, {made.files} files, "
            f"{size(made.size)}, every file as locked",
            "bold green",
        )
    if made.proof == "unproven":
        console.note(f"unproven: {made.reason}")
    elif made.proof == "skipped":
        console.note(f"not proven: the checks were left out; `{_verb(console, 'smoke', result)}`")
    console.line("Next:")
    console.line(f"  {_verb(console, 'run', result)} -- python your_script.py")
    console.line(f"  {_verb(console, 'smoke', result)} --full")
    console.line(f"  or activate it: {_activation(result)}")


def _verb(console: Console, verb: str, result: Built) -> str:
    return f"{console.program} {verb} {result.target}"


def _activation(result: Built) -> str:
    assert result.generation is not None  # noqa: S101 - the caller has looked
    current = result.generation.folder.parent / "current"
    if sys.platform == "win32":
        return str(current / "Scripts" / "activate")
    return f"source {current / 'bin' / 'activate'}"


@show.register
def _(result: Verification, console: Console) -> None:
    _findings(result.findings, console)
    if not result.findings:
        depth = "every hash" if result.tree else "every size"
        console.line(
            f"as locked: {result.distributions} packages, {result.files} files, "
            f"{size(result.size)}, {depth} compared",
            "green",
        )


def _findings(findings: Iterable[Finding], console: Console) -> None:
    for finding in findings:
        console.finding(finding)


@show.register
def _(result: Report, console: Console) -> None:
    for check in result.checks:
        style = "green" if check.outcome == "passed" else "bold red"
        mark = "ok  " if check.outcome == "passed" else "FAIL"
        console.line(f"{mark} {check.id:<28} {_numbers(check)}", style)
    for check in result.failed:
        if check.finding:
            found = check.finding.model_dump() | {"level": Level(check.finding.level)}
            console.finding(Finding(**found))
    passed = len(result.checks) - len(result.failed)
    console.line(
        f"{result.suite} suite on {result.device.get('name', result.target)}: "
        f"{passed} passed, {len(result.failed)} failed in {result.seconds:.1f} s",
        "bold red" if result.failed else "bold green",
    )


def _numbers(check: Check) -> str:
    return ", ".join(
        f"{name} {number.value:.3g}{'' if number.unit == '1' else ' ' + number.unit}"
        for name, number in check.numbers.items()
    )


@show.register
def _(result: Detection, console: Console) -> None:
    host = result.host
    around = f" in {', '.join(host.surroundings)}" if host.surroundings else ""
    console.line(f"{host.platform}, kernel {host.kernel}{around}", "bold")
    for gpu in host.gpus:
        driver = (
            f"driver {gpu.driver.name} {gpu.driver.version or ''}" if gpu.driver else "no driver"
        )
        console.line(f"  {gpu.name} at {gpu.address}, {driver}")
    if not host.gpus:
        console.line("  no GPU")
    for name, variable in result.hidden:
        console.note(f"{name} is hidden by {variable}")
    for fit in result.fits:
        chosen = fit.target == result.chosen
        style = {Verdict.FITS: "green", Verdict.BLOCKED: "yellow", Verdict.NO: "dim"}[fit.verdict]
        mark = "->" if chosen else "  "
        reasons = "; ".join(fit.reasons)
        console.line(f"{mark} {fit.target:<20} {fit.verdict:<8} {reasons}", style)
    for advice in result.advice:
        console.note(advice)


@show.register
def _(result: list, console: Console) -> None:  # type: ignore[type-arg]  # dispatch wants it bare
    for item in result:
        show(item, console)


@show.register
def _(result: LockResult, console: Console) -> None:
    state = "written" if result.rewritten else "unchanged"
    console.line(f"{result.target}: {plural(result.packages, 'package')} locked, {state}", "green")
    for change in result.changes:
        versions = f"{change.before or ''} -> {change.after or ''}".strip()
        console.line(f"  {change.kind:<8}{change.name} {versions} (via {', '.join(change.via)})")


@show.register
def _(result: Overview, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("target", "platform", "lock", "built", "last checks", "what it is"):
        table.add_column(column, overflow="fold")
    for row in result.rows:
        table.add_row(row.name, row.platform, row.lock, row.built, row.smoke, row.summary)
    console.table(table)
