"""The verdict on one node: whether a scheduler keeps it, removes it, or has learnt nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from provision import __version__
from provision.core.errors import Exit
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding, Level
from provision.core.limits import read_text
from provision.core.text import harmless, json_text
from provision.report.model import Measurement, Part, Report, moment

if TYPE_CHECKING:
    from provision.report.regressions import Comparison

CODES = {"keep": Exit.OK, "remove": Exit.FINDINGS, "none": Exit.USAGE}
# Codes of failed checks that say nothing about the node.
_OUTSIDE = {"network-failure", "device-busy", "port-in-use"}
# A check that is gone tells of a new suite or lock, which all nodes get on one day; of a device
# that is gone, `fewer-devices` tells.
_HARMLESS = {"check-vanished"}


def _short(text: str) -> str:
    return " ".join(harmless(text).split())[:300]  # a verdict is a line of a scheduler's state


Short = Annotated[str, AfterValidator(_short)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]


class Fault(Part):
    """A check that failed, a difference from the lock, or a regression; those have no ``check``."""

    check: str
    code: str
    symptom: Short


class Verdict(Part):
    """One verdict; of ``none`` all facts are empty.

    Attributes:
        schema_version: 1; ``schema`` in the file.
        suite: Which checks were run, or ``verify``.
        code: Of the finding that removes; of ``none`` also ``busy``, ``time-limit``,
            ``interrupted``, ``usage`` or ``tool``; empty of ``keep``.
        time: When it was reached, ISO 8601, UTC.
        seconds: How long that took.
        provision: Version of the toolkit.
        device: Name of the first device.
        stack: Layers of the host and their versions, as in a report.
        regressions: What is worse than it has been on this node, also what removes nothing.
    """

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    node: Name
    target: Name
    suite: Literal["quick", "full", "health", "verify"]
    verdict: Literal["keep", "remove", "none"]
    code: str = ""
    reason: Short = ""
    remedy: Short = ""
    time: Annotated[str, AfterValidator(moment)]
    seconds: float
    provision: str = __version__
    lock: str | None = None
    torch: str | None = None
    python: str | None = None
    device: str | None = None
    devices: int = 0
    stack: dict[str, str] = Field({})
    counts: dict[str, int] = Field({})
    failed: tuple[Fault, ...] = ()
    regressions: tuple[Fault, ...] = ()
    numbers: dict[str, dict[str, Measurement]] = Field({})

    def store(self, folder: Path) -> None:
        """Write it where ``fleet report`` reads it; the last one that was not ``none`` stays."""
        path = folder / f"{self.node}.{self.target}.{self.suite}.json"
        with contextlib.suppress(OSError, ValueError):  # none yet, or damaged
            before = read_text(path)
            if Verdict.model_validate_json(before).verdict != "none":
                write_atomic(path.with_suffix(".last.json"), before)
        each = {"__all__": {"__all__": {"rounds", "every"}}}
        document = self.model_dump(mode="json", by_alias=True, exclude={"numbers": each})
        write_atomic(path, json_text(document, None))


def judge_report(report: Report, comparison: Comparison | None) -> dict[str, Any]:
    """Return the parts of a verdict that a smoke run decides."""
    found = [(check.id, check.finding) for check in report.failed if check.finding]
    failed = [_fault(name, finding) for name, finding in found if finding.level != "note"]
    worse = [finding for finding in comparison.findings if finding.bad] if comparison else []
    grave = [each for each in worse if each.level is Level.ERROR and each.code not in _HARMLESS]
    decisive = failed or [_fault("", each) for each in grave]
    causes = [fault for fault in decisive if fault["code"] not in _OUTSIDE]
    facts = report.model_dump(include={"suite", "lock", "torch", "python", "stack", "counts"})
    remedies = {finding.code: finding.remedy for _, finding in found}
    return facts | {
        "verdict": "remove" if causes else "keep" if report.proves else "none",
        **_reason(causes or decisive, remedies | {each.code: each.remedy for each in grave}),
        "device": report.device.get("name"),
        "devices": len(report.devices or (report.device,)),
        "failed": failed,
        "regressions": [_fault("", each) for each in worse],
        "numbers": {
            check.id: {name: found for name, found in check.numbers.items() if found.comparable}
            for check in report.checks
        },
    }


def judge_findings(findings: tuple[Finding, ...]) -> dict[str, Any]:
    """Return the parts of a verdict that a comparison with the lock decides."""
    grave = [each for each in findings if each.level is Level.ERROR]
    failed = [_fault("", each) for each in grave]
    reason = _reason(failed, {each.code: each.remedy for each in grave})
    return {"verdict": "remove" if grave else "keep", "failed": failed, **reason}


def _reason(faults: list[dict[str, str]], remedies: dict[str, str]) -> dict[str, str]:
    if not faults:
        return {}
    first = faults[0]
    reason = f"{first['check']}: {first['symptom']}".removeprefix(": ")
    return {"code": first["code"], "reason": reason, "remedy": remedies[first["code"]]}


def _fault(check: str, finding: Any) -> dict[str, str]:  # noqa: ANN401 - of suite or toolkit
    return {"check": check, "code": finding.code, "symptom": finding.symptom}


def verdict_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stored verdict, which fleet/verdict.schema.json holds."""
    draft = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Provision verdict",
    }
    return Verdict.model_json_schema() | draft
