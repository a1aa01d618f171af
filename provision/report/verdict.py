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
    """Id of the check; empty for a difference from the lock, and for a regression."""
    code: str
    """Of the finding."""
    symptom: Short
    """At most 300 characters, in one line."""
    remedy: Short
    """At most 300 characters, in one line."""


class Verdict(Part):
    """One verdict; of ``none`` the facts are empty."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    """Of the verdict."""
    node: str
    """Name of the node."""
    target: str
    """Name of the target."""
    suite: Literal["quick", "full", "health", "verify"]
    """`verify` compares with the lock, the others are checks."""
    verdict: Literal["keep", "remove", "none"]
    """`none`: nothing was learnt about the node."""
    code: str = ""
    """Of a finding, or `busy`, `time-limit`, `interrupted`, `usage`, `tool`; empty of `keep`."""
    reason: Short = ""
    """At most 300 characters, in one line."""
    remedy: Short = ""
    """At most 300 characters, in one line."""
    time: Annotated[str, AfterValidator(moment)]
    """When it was reached, ISO 8601, UTC."""
    seconds: float
    """How long that took, in seconds."""
    provision: str = __version__
    """Version of the toolkit."""
    lock: str | None = None
    """Digest of the environment's lock."""
    torch: str | None = None
    """Version in the environment."""
    python: str | None = None
    """Version in the environment."""
    device: str | None = None
    """Name of the first."""
    devices: int = 0
    """How many devices were checked."""
    stack: dict[str, str] = Field({})
    """Layers of the host, as in a report."""
    counts: dict[str, int] = Field({})
    """Of checks."""
    failed: tuple[Fault, ...] = ()
    """Failed checks, or differences from the lock."""
    regressions: tuple[Fault, ...] = ()
    """What this node did better before."""
    numbers: dict[str, dict[str, Measurement]] = Field({})
    """By check, and by name."""

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
