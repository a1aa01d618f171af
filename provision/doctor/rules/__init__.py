"""The environment rules: pure functions of the context, which yield cases of ``cases.toml``."""

import re
from collections.abc import Sequence
from dataclasses import replace
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
    return tuple(
        f for f in functions if getattr(f, "__annotations__", {}).get("return") in kinds
    )


# The order counts, here and in each module: `unless` sees the findings of earlier rules only, and
# among findings of one level the earlier is reported first, as the deeper cause.
ENVIRONMENT_RULES = _rules_of(
    python,
    files,
    intel,
    torch,
    companions,
    transformers,
    requirements,
    binaries,
    machine,
    drivers,
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


def merged(
    context: DoctorContext,
    found: list[Finding],
    damage: Sequence[Finding],
    names: set[str],
) -> list[Finding]:
    """Return what the rules and ``verify`` found: of one file or package what ``verify`` says."""
    said = re.split(
        r"[\s:,/]+", " ".join(w for d in damage for w in (d.symptom, *d.evidence))
    )
    told, machine = (
        {w for w in said if w in names or "." in w},
        apply_rules(context, MACHINE_RULES),
    )
    heads = re.compile(r"(?m)^[^\s:]+|(?<=-packages/)[^\s:,/]+")
    new = (
        f
        for f in found
        if told.isdisjoint(heads.findall("\n".join(f.evidence))) or f in machine
    )
    mend = (
        (d, d.remedy if "--repair" in d.remedy else context.repair or d.remedy)
        for d in damage
    )
    return [*(replace(each, remedy=remedy) for each, remedy in mend), *new]
