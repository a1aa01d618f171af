"""The result type of verify, smoke, compare and doctor."""

import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any


class Level(StrEnum):
    """How bad a finding is; in order, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or fact worth knowing, and what to do about it."""

    code: str
    """Stable; the reference of the findings lists all."""
    level: Level
    """An error or a warning makes the exit code 1, a note does not."""
    symptom: str
    """What is wrong."""
    cause: str
    """Why."""
    remedy: str
    """What to do: a command, or a sentence."""
    evidence: tuple[str, ...]
    """What was read or measured, as lines."""

    @property
    def bad(self) -> bool:
        """Whether this finding makes a verdict bad."""
        return self.level is not Level.NOTE


def described(table: Path, name: str, /, *evidence: str, **facts: object) -> Finding:
    """Return the finding of a name in a table, with the facts that its texts name in braces."""
    texts = toml_table(table)[name]
    return Finding(
        texts.get("code", name),
        Level(texts.get("level", "error")),
        texts["symptom"].format(**facts),
        texts["cause"].format(**facts),
        texts["remedy"].format(**facts),
        evidence,
    )


@cache
def toml_table(path: Path) -> dict[str, Any]:
    """Return a table of texts or facts that comes with the toolkit."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about an environment, a log or a machine; worst first."""

    examined: str
    """What was examined: a path, a machine, or `-` for standard input."""
    findings: tuple[Finding, ...]
    """Worst first."""
    facts: dict[str, str] = field(default_factory=dict)
    """What was read, by name."""

    @property
    def bad(self) -> bool:
        """Whether anything is worse than a note."""
        return any(finding.bad for finding in self.findings)


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Return the findings ordered by level, keeping their order within a level."""
    return sorted(findings, key=lambda finding: list(Level).index(finding.level))
