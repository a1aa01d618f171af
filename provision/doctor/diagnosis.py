"""Diagnosis of an environment or of a machine: facts are gathered once, then rules applied."""

from dataclasses import replace
from pathlib import Path

from provision.catalog.devices import Devices
from provision.core.findings import Diagnosis, Finding, worst_first
from provision.core.platforms import ACCELERATORS
from provision.core.project import RECORD
from provision.doctor.context import DoctorContext
from provision.doctor.environment import Environment, read_environment
from provision.doctor.installation import read_installation, shadows
from provision.doctor.libraries import missing_libraries
from provision.doctor.rules import (
    ENVIRONMENT_RULES,
    MACHINE_RULES,
    STATE_RULES,
    apply_rules,
)
from provision.environment.contents import read_contents
from provision.environment.verify import verify
from provision.host.model import Host, host_layers
from provision.lockfile.pip import Lock
from provision.spec.model import Target


def diagnose_machine(host: Host, devices: Devices) -> Diagnosis:
    """Return what prevents programs of any environment from using this machine's GPUs."""
    vendors = {gpu.vendor for gpu in host.gpus if gpu.supported}
    usable = [name for name, it in ACCELERATORS.items() if it.vendor in vendors]
    no_environment = Environment(Path(), Path())
    findings = []
    for accelerator in usable or ["cpu"]:
        context = DoctorContext(no_environment, host, devices, assumed=accelerator)
        findings += apply_rules(context, MACHINE_RULES)
    distinct = list(dict.fromkeys(findings))  # of two accelerators, one may have all
    return Diagnosis("this machine", tuple(worst_first(distinct)), host_layers(host))


def diagnose_environment(
    python: Path,
    host: Host,
    devices: Devices,
    *,
    target: Target | None = None,
    lock: Lock | None = None,
    home: Path | None = None,
    root: Path = Path("/"),
) -> Diagnosis:
    """Return the errors of an environment, worst first, without running or importing any of it.

    ``python`` is its interpreter or its folder, ``target`` what it was built for, ``lock`` what
    should be installed; ``home`` has the user's packages and caches, ``root`` the libraries.
    """
    base = host.variables.get("PYTHONUSERBASE", "")
    env = read_environment(python, home=home, base=base)
    if target:
        env = replace(env, excluded=target.pip.exclude)
    context = DoctorContext(
        env,
        host,
        devices,
        target,
        missing=tuple(missing_libraries(env, host, root=root)),
        files=read_installation(env),
        shadows=shadows(env, host.variables.get("PYTHONPATH", "")),
    )
    if lock is None:
        findings = apply_rules(context, ENVIRONMENT_RULES)
    else:
        findings = [*_damage(env, lock, target), *apply_rules(context, STATE_RULES)]
    return Diagnosis(str(python), tuple(worst_first(findings)), context.summary())


def _damage(env: Environment, lock: Lock, target: Target | None) -> list[Finding]:
    """Return what differs from the lock, with the command that mends what was built from it."""
    forbid = target.pip.forbid if target else ()
    contents = read_contents(env.prefix, lock.folder.name)
    damage = verify(contents, lock, forbid, deep=False).findings
    if not (env.prefix / RECORD).is_file():
        return list(damage)
    repair = f"`provision verify {lock.folder.name} --repair`"
    findings = []
    for finding in damage:
        if "--repair" in finding.remedy:
            findings.append(finding)
        else:
            findings.append(replace(finding, remedy=repair))
    return findings
