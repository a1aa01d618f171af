"""The result type of verify, smoke, compare and doctor."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is; in order, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault or fact worth knowing, and what to do about it.

    Attributes:
        code: Stable identifier in kebab-case, for instance ``ipex-in-cuda-env``.
        level: How bad it is. Anything but a note makes the verb exit with 1.
        symptom: What a user sees.
        cause: Why.
        remedy: A command or a concrete step that mends it.
        evidence: The facts or lines this was concluded from, at least one.
    """

    code: str
    level: Level
    symptom: str
    cause: str
    remedy: str
    evidence: tuple[str, ...]

    @property
    def bad(self) -> bool:
        """Whether this finding makes a verdict bad."""
        return self.level is not Level.NOTE


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about an environment, a log or a machine; worst first.

    Attributes:
        patient: What was examined.
        findings: Empty where no known fault was found.
        facts: What was read before any rule ran; empty for a log.
    """

    patient: str
    findings: tuple[Finding, ...]
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        """Whether anything is worse than a note."""
        return any(finding.bad for finding in self.findings)


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Return the findings ordered by level, keeping their order within a level."""
    order = list(Level)
    return sorted(findings, key=lambda finding: order.index(finding.level))
