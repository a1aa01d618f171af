"""The environment rules: pure functions of the context, which yield cases of ``cases.toml``."""

from types import ModuleType

from provision.core.findings import Finding, worst_first
from provision.doctor.context import DoctorContext, Findings, Rule
from provision.doctor.rules import (
    binaries,
    companions,
    drivers,
    files,
    intel,
    machine,
    python,
    requirements,
    torch,
    transformers,
)


def _rules_of(*modules: ModuleType) -> tuple[Rule, ...]:
    functions = (found for module in modules for found in vars(module).values())
    kinds = ("Findings", Findings)  # delayed in modules that delay annotations
    return tuple(f for f in functions if getattr(f, "__annotations__", {}).get("return") in kinds)


# The order counts, here and in each module: `unless` sees the findings of earlier rules only, and
# among findings of one level the earlier is reported first, as the deeper cause.
ENVIRONMENT_RULES = _rules_of(
    python, files, intel, torch, companions, transformers, requirements, binaries, machine, drivers
)
# Rules on packages that do not work together, whatever the machine: a lock is judged by them too.
PACKAGE_RULES = _rules_of(intel, companions, transformers)
MACHINE_RULES = _rules_of(machine, drivers)


def apply_rules(
    context: DoctorContext, rules: tuple[Rule, ...] = ENVIRONMENT_RULES
) -> list[Finding]:
    """Return what is wrong, worst first, causes before their symptoms."""
    found: list[Finding] = []
    for rule in rules:
        explained = getattr(rule, "unless", ())
        if not any(finding.bad and finding.code in explained for finding in found):
            found += rule(context)
    return worst_first(found)
