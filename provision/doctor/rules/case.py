"""What a rule reports: a case of ``cases.toml``, with the facts that it was concluded from."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.findings import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from provision.doctor.context import DoctorContext

    Rule = Callable[[DoctorContext], Iterator[Finding]]

_CASES = Path(__file__).parents[1] / "cases.toml"


def unless(*codes: str) -> Callable[[Rule], Rule]:
    """Mark a rule: it is not applied after an error or a warning of these codes.

    They explain what it would report, so that one cause is not reported as ten.
    """

    def mark(rule: Rule) -> Rule:
        rule.unless = codes  # type: ignore[attr-defined]
        return rule

    return mark


def case(
    name: str,
    evidence: Iterable[str],
    /,
    *,
    code: str | None = None,
    level: Level | None = None,
    **facts: object,
) -> Finding:
    """Return the finding of a case.

    Args:
        name: Its table in ``cases.toml``.
        evidence: The facts, at least one.
        code: Another code than the table's.
        level: Another level than the table's.
        facts: What the texts name in braces.
    """
    table = cases()[name]
    symptom, cause, remedy = (table[key].format(**facts) for key in ("symptom", "cause", "remedy"))
    return Finding(
        code or table["code"], level or Level(table["level"]), symptom, cause, remedy,
        tuple(evidence),
    )  # fmt: skip


@cache
def cases() -> dict[str, dict[str, str]]:
    """Return every case by its name."""
    return tomllib.loads(_CASES.read_text(encoding="utf-8"))
