"""The verdict on one node: whether a scheduler keeps it, removes it, or has learnt nothing."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from provision import __version__
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding, Level
from provision.core.limits import read_text
from provision.core.text import harmless, json_text
from provision.report.model import Measurement, Part, Report, moment

# Codes of failed checks that say nothing about the node.
_OUTSIDE = {"network-failure", "device-busy", "port-in-use"}
# It tells of a new suite or lock, which all nodes get on one day; of a device that is gone,
# `fewer-devices` tells.
_HARMLESS = {"check-vanished"}
_OF_REPORT: Any = {"suite", "lock", "torch", "python", "stack", "counts"}
# A verdict is a line in a scheduler's state.
Short = Annotated[
    str, AfterValidator(lambda text: " ".join(harmless(text).split())[:300])
]


class Fault(Part):
    """A failed check; without ``check`` a difference from the lock, or a regression."""

    check: str
    code: str
    symptom: Short
    remedy: Short


class Verdict(Part):
    """One verdict; of ``none`` the facts are empty."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    node: str
    target: str
    suite: Literal["quick", "full", "health", "verify"]
    verdict: Literal["keep", "remove", "none"]
    code: str = ""  # of a finding, or busy, time-limit, interrupted, usage, tool
    reason: Short = ""
    remedy: Short = ""
    time: Annotated[str, AfterValidator(moment)]  # when it was reached, ISO 8601, UTC
    seconds: float  # how long that took
    provision: str = __version__
    lock: str | None = None
    torch: str | None = None
    python: str | None = None
    device: str | None = None  # name of the first
    devices: int = 0
    stack: dict[str, str] = Field({})  # layers of the host, as in a report
    counts: dict[str, int] = Field({})  # of checks
    failed: tuple[Fault, ...] = ()
    regressions: tuple[Fault, ...] = ()  # what this node did better before
    numbers: dict[str, dict[str, Measurement]] = Field({})

    def store(self, folder: Path) -> None:
        """Write it where ``fleet report`` reads it; the last one that was not ``none`` stays."""
        path = folder / f"{self.node}.{self.target}.{self.suite}.json"
        with contextlib.suppress(OSError, ValueError):  # none yet, or damaged
            if Verdict.model_validate_json(before := read_text(path)).verdict != "none":
                write_atomic(path.with_suffix(".last.json"), before)
        write_atomic(path, json_text(self.document(), None))

    def document(self) -> dict[str, Any]:
        """Return it as it is written: without the course of each number."""
        each: Any = {"numbers": {"__all__": {"__all__": {"rounds", "every"}}}}
        return self.model_dump(mode="json", by_alias=True, exclude=each)


def judge(
    found: Iterable[tuple[str, Any]], worse: Iterable[Finding] = ()
) -> dict[str, Any]:
    """Return the parts of a verdict that findings, each with its check, and regressions decide."""
    regressions = [_fault("", each) for each in worse if each.bad]
    grave = {each.code for each in worse if each.level is Level.ERROR} - _HARMLESS
    failed = [_fault(check, each) for check, each in found if each.level == Level.ERROR]
    decisive = failed or [each for each in regressions if each.code in grave]
    causes = [each for each in decisive if each.code not in _OUTSIDE]
    parts = {
        "verdict": "remove" if causes else "none" if decisive else "keep",
        "failed": failed,
        "regressions": regressions,
    }
    for first in (causes or decisive)[:1]:
        reason = f"{first.check}: {first.symptom}".removeprefix(": ")
        parts |= {"code": first.code, "reason": reason, "remedy": first.remedy}
    return parts


def facts_of(report: Report) -> dict[str, Any]:
    """Return the parts of a verdict that a smoke run tells of the node."""
    numbers = {
        check.id: {
            name: number for name, number in check.numbers.items() if number.comparable
        }
        for check in report.checks
    }
    device, devices = report.device.get("name"), len(report.devices) or 1
    more = {"device": device, "devices": devices, "numbers": numbers}
    return report.model_dump(include=_OF_REPORT) | more


def _fault(check: str, finding: Any) -> Fault:  # noqa: ANN401 - of the suite or the toolkit
    return Fault(
        check=check, code=finding.code, symptom=finding.symptom, remedy=finding.remedy
    )


def verdict_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stored verdict (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema"
    } | Verdict.model_json_schema()
