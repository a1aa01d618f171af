"""The environment rules: pure functions of the context, each with the code that it reports.

To add a rule, write its class in the module of its subject and put it into the ``RULES`` of that
module; nothing else changes. Its code needs a table in ``findings.toml``. A new module is one more
name in ``_MODULES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from provision.core.findings import worst_first
from provision.doctor.rules import (
    binaries,
    bitsandbytes,
    companions,
    drivers,
    intel,
    machine,
    numpy2,
    python,
    requirements,
    torch,
    transformers,
    triton,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
    from provision.doctor.context import DoctorContext


class EnvironmentRule(Protocol):
    """One fault that an environment or a machine can have; the class's docstring names it.

    Attributes:
        code: The code of its findings.
        unless: Codes of findings that explain this one: the rule is not applied after an error or
            a warning of these, so that one cause is not reported as ten.
    """

    code: ClassVar[str]
    unless: ClassVar[tuple[str, ...]]

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield a finding for each fault."""
        ...


# The order counts, here and in each module: `unless` sees the findings of earlier rules only, and
# among findings of one level the earlier is reported first, as the deeper cause.
_MODULES = (
    python,
    intel,
    torch,
    companions,
    triton,
    transformers,
    numpy2,
    requirements,
    bitsandbytes,
    binaries,
    machine,
    drivers,
)
ENVIRONMENT_RULES: tuple[EnvironmentRule, ...] = tuple(
    rule for module in _MODULES for rule in module.RULES
)
# Rules on packages that do not work together, whatever the machine: a lock is judged by them too.
PACKAGE_RULES: tuple[EnvironmentRule, ...] = tuple(
    rule for module in (intel, companions, triton, transformers) for rule in module.RULES
)
MACHINE_RULES: tuple[EnvironmentRule, ...] = (*machine.RULES, *drivers.RULES)


def apply_rules(
    context: DoctorContext, rules: tuple[EnvironmentRule, ...] = ENVIRONMENT_RULES
) -> list[Finding]:
    """Return what is wrong, worst first, causes before their symptoms."""
    found: list[Finding] = []
    for rule in rules:
        if not any(finding.bad and finding.code in rule.unless for finding in found):
            found += rule.check(context)
    return worst_first(found)
