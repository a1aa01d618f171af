"""What a person sees of each verb's result.

Views are found by the name of the result's class: importing every verb to render one of them
would cost more time than most verbs take.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.table import Table

from provision.core.findings import Finding, Level
from provision.core.text import plural, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from provision.catalog.snapshot_update import RefreshResult
    from provision.commands.build import BuildResult
    from provision.commands.bundle import Bundle
    from provision.commands.detect import Detection
    from provision.commands.generations import Cleaned, RolledBack
    from provision.commands.lock import Confirmation, Freshness, LockResult
    from provision.commands.status import ProjectStatus
    from provision.core.findings import Diagnosis
    from provision.environment.verify import Verification
    from provision.image.docker import BuiltImage
    from provision.lockfile.diff import ArtifactChange
    from provision.report.model import Check, Report
    from provision.report.regressions import Comparison, SmokeResult, SmokeSkipped
    from provision.ui.console import Console

_VIEWS: dict[str, Callable[[Any, Console], None]] = {}
_SHOWN = 3


def show(result: object, console: Console) -> None:
    """Print a verb's result for a person; of a list, each item."""
    for item in result if isinstance(result, list) else [result]:
        _VIEWS[type(item).__name__](item, console)


def _view(name: str) -> Callable[[Callable[[Any, Console], None]], Callable[[Any, Console], None]]:
    def register(function: Callable[[Any, Console], None]) -> Callable[[Any, Console], None]:
        _VIEWS[name] = function
        return function

    return register


@_view("BuildResult")
def _built(result: BuildResult, console: Console) -> None:
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
    if activation := _activation(result):
        console.line(f"  or activate it: {activation}")


def _verb(console: Console, verb: str, result: BuildResult) -> str:
    return f"{console.program} {verb} {result.target}"


def _activation(result: BuildResult) -> str:
    """Return the line that activates an environment; a conda prefix has no script for it."""
    assert result.generation is not None  # noqa: S101 - the caller has looked
    current = result.generation.folder.parent / "current"
    if (result.generation.folder / "conda-meta").is_dir():
        return ""
    if sys.platform == "win32":
        # Not every drive of Windows knows links.
        folder = current if current.exists() else result.generation.folder
        return str(folder / "Scripts" / "activate")
    return f"source {current / 'bin' / 'activate'}"


@_view("Bundle")
def _bundle(result: Bundle, console: Console) -> None:
    for item in result.missing:
        console.line(f"missing: {item}", "bold red")
    words = f"{plural(result.files, 'file')}, {size(result.size)} in {result.folder}"
    if result.missing:
        console.line(f"{result.target} is not complete: {words}", "bold red")
        console.line("put what is missing into a folder and name it with --wheelhouse DIR")
        return
    console.line(f"{result.target} is complete: {words}", "bold green")
    console.line(f"Copy the folder; on the other machine run {result.command} in it")


@_view("Verification")
def _verification(result: Verification, console: Console) -> None:
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        depth = "every hash" if result.tree else "every size"
        console.line(
            f"as locked: {result.distributions} packages, {result.files} files, "
            f"{size(result.size)}, {depth} compared",
            "green",
        )


@_view("Report")
def _report(result: Report, console: Console) -> None:
    for check in result.checks:
        mark, style = _mark(check)
        console.line(f"{mark} {check.id:<28} {_numbers(check)}", style)
    for check in result.failed:
        if check.finding and not check.blocked:
            found = check.finding.model_dump() | {"level": Level(check.finding.level)}
            console.finding(Finding(**found))
    blocked = sum(check.blocked for check in result.failed)
    because = f", {blocked} of these not run because of the others" if blocked else ""
    passed = len(result.checks) - len(result.failed)
    console.line(
        f"{result.suite} suite on {result.device.get('name', result.target)}: {passed} passed, "
        f"{len(result.failed)} failed{because}, in {result.seconds:.1f} s",
        "bold red" if result.failed else "bold green",
    )


def _mark(check: Check) -> tuple[str, str]:
    if check.outcome == "passed":
        return "ok  ", "green"
    return ("--  ", "dim") if check.blocked else ("FAIL", "bold red")


@_view("SmokeResult")
def _smoked(result: SmokeResult, console: Console) -> None:
    show(result.report, console)
    if result.comparison:
        show(result.comparison, console)


@_view("Comparison")
def _comparison(result: Comparison, console: Console) -> None:
    for move in result.moves:
        console.note(f"since {result.since}: {move}")
    for finding in result.findings:
        console.finding(finding)
    if result.new:
        console.note(f"no earlier result to compare with: {', '.join(result.new)}")
    if not result.findings:
        common = f"{plural(len(result.compared), 'check')} " if result.new else ""
        console.line(f"{common}as good as on {result.since}", "green")


@_view("SmokeSkipped")
def _unchanged(result: SmokeSkipped, console: Console) -> None:
    verdict = f"{plural(result.failed, 'check')} failed" if result.failed else "all passed"
    when = f"no driver, kernel, runtime or lock changed since {result.since}"
    style = "bold red" if result.failed else "green"
    console.line(f"{result.target}: {when}; {verdict} then", style)


def _numbers(check: Check) -> str:
    shown = [
        f"{name} {number.value:.3g}{'' if number.unit == '1' else ' ' + number.unit}"
        for name, number in check.numbers.items()
    ]
    rest = len(shown) - _SHOWN
    return ", ".join([*shown[:_SHOWN], *([f"{rest} more in the report"] if rest > 0 else [])])


@_view("Detection")
def _detection(result: Detection, console: Console) -> None:
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
        style = {"fits": "green", "blocked": "yellow", "no": "dim"}[fit.verdict]
        mark = "->" if chosen else "  "
        reasons = "; ".join(fit.reasons)
        console.line(f"{mark} {fit.target:<20} {fit.verdict:<8} {reasons}", style)
    for advice in result.advice:
        console.note(advice)


@_view("LockResult")
def _locked(result: LockResult, console: Console) -> None:
    if result.error:
        console.error(result.error)
        return
    state = "changed" if result.differs else "unchanged"
    console.line(f"{result.target}: {plural(result.packages, 'package')}, {state}", "green")
    _changes(result.changes, console)


def _changes(changes: Iterable[ArtifactChange], console: Console) -> None:
    for change in changes:
        versions = f"{change.before or ''} -> {change.after or ''}".strip()
        console.line(f"  {change.kind:<8}{change.name} {versions} (via {', '.join(change.via)})")


@_view("Confirmation")
def _confirmed(result: Confirmation, console: Console) -> None:
    if result.differences:
        console.line(f"{result.target}: pip-tools would install something else", "bold red")
        _changes(result.differences, console)
    else:
        console.line(f"{result.target}: pip-tools accepts the lock", "green")


@_view("Freshness")
def _freshness(result: Freshness, console: Console) -> None:
    style = "bold red" if result.stale else "green"
    console.line(f"{result.target}: {result.stale or 'fresh'}", style)


@_view("RefreshResult")
def _refreshed(result: RefreshResult, console: Console) -> None:
    console.line(f"{result.name}: {len(result.added)} added, {len(result.completed)} completed")
    for name in (*result.added, *result.completed):
        console.line(f"  {name}")
    for name in result.vanished:
        console.note(f"{name} is not listed any more; the catalog keeps it")
    for changed in result.reuploads:
        console.line(f"refused: {changed.filename} is another file now", "bold red")
        console.line(f"  known sha256 {changed.known}, offered {changed.offered}")
    for error in result.errors:
        console.error(error)


@_view("Diagnosis")
def _diagnosis(result: Diagnosis, console: Console) -> None:
    width = max(map(len, result.facts), default=0) + 1
    for name, value in result.facts.items():
        console.line(f"  {name + ':':<{width}} {value}", "dim")
    for finding in result.findings:
        console.finding(finding)
    if not result.findings:
        console.line(f"{result.patient}: nothing is wrong that the doctor knows of", "green")


@_view("RolledBack")
def _rolled_back(result: RolledBack, console: Console) -> None:
    made = result.now.record
    console.line(f"{result.target}: {result.before} -> {result.now.folder.name}", "green")
    console.line(f"in use now: built {made.built}, Python {made.python}, {made.proof}")


@_view("Cleaned")
def _cleaned(result: Cleaned, console: Console) -> None:
    for name, taken in result.removed:
        console.line(f"{result.target}: removed {name}, {size(taken)}")
    for name, taken in result.kept:
        console.line(f"{result.target}: kept {name}, {size(taken)}", "dim")


@_view("BuiltImage")
def _image(result: BuiltImage, console: Console) -> None:
    console.line(
        f"{result.tag} is built: {size(result.size)}, in {result.seconds:.1f} s", "bold green"
    )
    if result.layout:
        console.line(f"{result.layout}: {result.digest}")
    console.line("Next: prove it on its device")
    console.line(f"  docker run --rm {result.tag}")


@_view("ProjectStatus")
def _overview(result: ProjectStatus, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("target", "platform", "lock", "built", "last checks"):
        table.add_column(column, no_wrap=True)
    table.add_column("what it is")
    for row in result.rows:
        table.add_row(row.name, row.platform, row.lock, row.built, row.smoke, row.summary)
    console.table(table)
