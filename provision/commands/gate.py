"""The verb ``gate``: whether a node or runner is fit for the next job, in seconds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from provision.catalog.devices import read_devices
from provision.commands.check import run_some
from provision.commands.smoke import current_subject
from provision.commands.suite import ONLY, SmokeRequest
from provision.core.errors import ToolError, UsageError
from provision.core.findings import Finding, Level
from provision.core.platforms import ACCELERATORS
from provision.core.process import Run
from provision.core.program import program_name
from provision.core.progress import Progress
from provision.core.project import CURRENT, Project
from provision.doctor.context import case
from provision.host.compatibility import hindrances
from provision.host.known_wrong import affected_rows
from provision.host.model import Host
from provision.report.model import Check, Report
from provision.spec.model import Target
from provision.spec.reader import target_names

# Slower is not wrong: a gate reports speed, and lets the job run.
_OF_SPEED = {"slow", "link-below-its-best"}


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the checks of a gate found, and what the machine itself shows."""

    report: Report
    """The report of the checks, one process per device; it is not stored, and proves no lock."""
    findings: tuple[Finding, ...]
    """The findings about the machine."""


def gate(
    request: SmokeRequest, host: Callable[[], Host], run: Run, progress: Progress
) -> GateResult:
    """Check driver, device and first kernels of a target on this machine.

    ToolError: the checks did not come to an end.
    """
    with current_subject(request, progress) as subject:
        torch = subject.versions.get("torch", "")
        catalog = request.project.catalog
        suspected = known_wrong_checks(request.target, torch, host(), catalog)
        only = [*ONLY["gate"], *suspected]
        report = run_some(request, subject, only, run, progress)
    _require_end(request, report)
    checks = tuple(map(_without_speed, report.checks))
    report = report.model_copy(update={"checks": checks})
    findings = tuple(of_machine(request.target, host()))
    return GateResult(report, findings)


def gate_group(request: SmokeRequest, run: Run, progress: Progress) -> GateResult:
    """Let this process of a job sum and exchange numbers with the others.

    ToolError: the check did not come to an end.
    """
    assert request.group  # noqa: S101 - the handler's
    if request.group.network:
        names = ", ".join(sorted(request.group.network))
        progress.note(f"the check gets your settings of the network: {names}")
    with current_subject(request, progress) as subject:
        report = run_some(request, subject, (), run, progress)
    _require_end(request, report)
    checks = tuple(map(_without_blame, report.checks))
    return GateResult(report.model_copy(update={"checks": checks}), ())


def _require_end(request: SmokeRequest, report: Report) -> None:
    """Raise ToolError if the suite broke."""
    if report.broken:
        cause, _, evidence = report.broken.partition("\n")
        raise ToolError(
            f"the checks of {request.target.name} ended early",
            evidence=evidence,
            cause=cause,
            remedy=f"`{program_name()} smoke {request.target.name}` runs all quick checks",
        )


def known_wrong_checks(
    target: Target, torch: str, host: Host, catalog: Path
) -> list[str]:
    """Return the checks for what is known to be wrong with this torch on this machine's GPUs."""
    checks = set()
    devices = read_devices(catalog)
    for _, _, row in affected_rows(torch, target.accelerator, host, devices):
        # A row can name a check that takes all memory, or minutes.
        if row.check.startswith("known-wrong."):
            checks.add(row.check)
    return sorted(checks)


def _without_speed(check: Check) -> Check:
    """Return a check that failed for its speed alone as one that warned."""
    finding = check.finding
    if check.outcome != "failed" or not finding or finding.code not in _OF_SPEED:
        return check
    finding = replace(finding, level=Level.WARNING)
    return check.model_copy(update={"outcome": "warned", "finding": finding})


def _without_blame(check: Check) -> Check:
    """Return a check between nodes that hung as one that the network ended: any node can be why."""
    finding = check.finding
    if check.id != "group.exchange" or not finding or finding.code != "probe-hung":
        return check
    # No verdict of the nodes.
    finding = replace(finding, code="network-failure")
    return check.model_copy(update={"finding": finding})


def of_machine(target: Target, host: Host) -> Iterator[Finding]:
    """Yield the GPUs of the target's vendor whose firmware is damaged: torch may not see them."""
    vendor = ACCELERATORS[target.accelerator].vendor
    for gpu in host.gpus:
        if gpu.vendor != vendor or not gpu.survivability:
            continue
        for cause in hindrances(gpu, host):
            if cause.name == "survivability":
                line = f"{gpu.name} at {gpu.address}: {cause.reason}"
                yield case(cause.name, (line,), remedy=cause.remedy)


def only_built_target(project: Project) -> str:
    """Return the one target of a project that is built; UsageError if there are several, or none.

    Not the target that fits this machine: a GPU that fell off the bus would leave the CPU's.
    """
    built = []
    for name in target_names(project.specs):
        if (project.environments(name) / CURRENT).is_dir():
            built.append(name)
    if len(built) == 1:
        return built[0]
    program = program_name()
    if not built:
        remedy = f"build one with `{program} build TARGET`"
        raise UsageError("no target is named, and none is built here", remedy=remedy)
    raise UsageError(
        f"no target is named, and several are built: {', '.join(built)}",
        remedy=f"name the one of this machine, such as `{program} gate {built[0]}`",
    )
