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
    """One fault or fact worth knowing, and what to do about it."""

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
    """The findings about an environment, a log or a machine; worst first."""

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
