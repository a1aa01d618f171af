"""The environment rules: pure functions of the context, which yield cases of ``cases.toml``."""

from collections.abc import Sequence

from provision.core.findings import Finding, worst_first
from provision.doctor.context import DoctorContext, Rule
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

# The order counts: `unless` sees the findings of earlier rules only, and among findings of one
# level the earlier is reported first, as the deeper cause.
# On files and versions, which `verify` compares with the lock where there is one.
FILE_RULES: tuple[Rule, ...] = (python.half_installed, files.installation)
# On packages that do not work together, whatever the machine: a lock is checked by them too.
PACKAGE_RULES: tuple[Rule, ...] = (
    intel.ipex_beside_ipex_llm,
    intel.ipex_in_cuda,
    intel.ipex_other_torch,
    intel.cuda_packages_with_xpu,
    intel.old_accelerate,
    intel.retired,
    companions.companions,
    companions.extensions,
    companions.tritons,
    transformers.transformers_for_ipex_llm,
)
MACHINE_RULES: tuple[Rule, ...] = (
    machine.selector,
    machine.hidden_card,
    machine.unusable,
    machine.small_bar,
    machine.no_runtime,
    machine.old_system,
    machine.little_room,
    machine.gpu_log,
    machine.unsupported_gpu,
    drivers.old_driver,
)
# On what a lock does not tell of an environment.
STATE_RULES: tuple[Rule, ...] = (
    python.interpreter,
    python.other_python,
    python.shadowed,
    python.user_site,
    torch.wrong_build,
    torch.cpu_build,
    *PACKAGE_RULES,
    binaries.setvars,
    binaries.missing_libraries,
    *MACHINE_RULES,
    drivers.known_wrong_numbers,
)
ENVIRONMENT_RULES: tuple[Rule, ...] = (
    *FILE_RULES,
    *STATE_RULES,
    requirements.numpy2,
    requirements.unmet_requirements,
)


def apply_rules(context: DoctorContext, rules: Sequence[Rule]) -> list[Finding]:
    """Return what is wrong, worst first, causes before their symptoms."""
    findings = list[Finding]()
    for rule in rules:
        explained = getattr(rule, "unless", ())
        if not any(finding.bad and finding.code in explained for finding in findings):
            findings += rule(context)
    return worst_first(findings)
