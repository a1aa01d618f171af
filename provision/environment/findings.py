"""What verifying an environment may find: the texts are in ``findings.toml``."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from provision.core.findings import Finding, described

finding = partial(described, Path(__file__).with_suffix(".toml"))


def of_target(findings: Iterable[Finding], target: str) -> tuple[Finding, ...]:
    """Return findings whose remedies name the target."""
    named = []
    for one in findings:
        remedy = one.remedy.replace("TARGET", target)
        named.append(replace(one, remedy=remedy))
    return tuple(named)
