"""What an earlier run compared and a later one of the same suite compares no more."""

import re

from provision.report.model import NOT_OFFERED, Check, Report

REFUSED = "operator-lost"  # the suite's code of an operator that the device refuses
_COUNT = re.compile(r"(.*, )?compared|samples")


def lost_by(check: Check, before: Check) -> list[str]:
    """Name the operators, types and numbers that a check compared before, and now does not."""
    lost = sorted(_not_offered(check) - _not_offered(before))
    for name, number in before.numbers.items():
        now = check.numbers.get(name)
        if now is None:
            if number.limit is not None:
                lost.append(name)
        elif _COUNT.fullmatch(name) and now.value < number.value and not lost:
            lost.append(f"{name} {number.value:.0f} -> {now.value:.0f}")
    return lost


def comparable_runs(before: Report, after: Report) -> bool:
    """Whether two runs asked for the same: the same suite, files of it and devices."""
    same_checks = before.suite == after.suite and before.scope == after.scope
    return same_checks and bool(after.files) and before.files == after.files


def _not_offered(check: Check) -> set[str]:
    """The operators, with their types, that the device did not offer."""
    names = set()
    for name in (*check.not_measured, *check.numbers):
        if name.startswith(NOT_OFFERED):
            names.add(name.removeprefix(NOT_OFFERED))
    return names
