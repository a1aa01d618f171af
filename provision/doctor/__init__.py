"""Diagnosis of a log, an environment or a machine, each of which imports only what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.findings import Diagnosis, Finding, worst_first
from provision.core.project import RECORD
from provision.doctor.logs import diagnose_evidence, diagnose_log

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.host.model import Host
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target

__all__ = [
    "diagnose_environment",
    "diagnose_evidence",
    "diagnose_log",
    "diagnose_machine",
]


def diagnose_machine(host: Host, devices: Devices) -> Diagnosis:
    """Return what prevents programs of any environment from using this machine's GPUs."""
    from provision.core.platforms import ACCELERATORS  # noqa: PLC0415
    from provision.doctor.context import DoctorContext  # noqa: PLC0415
    from provision.doctor.environment import Environment  # noqa: PLC0415
    from provision.doctor.rules import MACHINE_RULES, apply_rules  # noqa: PLC0415
    from provision.host.model import host_layers  # noqa: PLC0415

    usable = {gpu.vendor for gpu in host.gpus if gpu.supported}
    accelerators = [
        name for name, known in ACCELERATORS.items() if known.vendor in usable
    ]
    no_environment = Environment(Path(), Path())
    found: dict[Finding, None] = {}  # a fault of two accelerators is reported once
    for name in accelerators or ["cpu"]:
        context = DoctorContext(no_environment, host, devices, assumed=name)
        found |= dict.fromkeys(apply_rules(context, MACHINE_RULES))
    return Diagnosis("this machine", tuple(worst_first(list(found))), host_layers(host))


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
    """Return the faults of an environment, worst first, without running or importing any of it.

    ``python`` is its interpreter or its folder, ``target`` what it was built for, ``lock`` what
    should be installed; ``home`` has the user's packages and caches, ``root`` the libraries.
    """
    from provision.doctor.context import DoctorContext  # noqa: PLC0415
    from provision.doctor.environment import read_environment  # noqa: PLC0415
    from provision.doctor.installation import elsewhere, read_installation  # noqa: PLC0415
    from provision.doctor.libraries import foreign_symbols, missing_libraries  # noqa: PLC0415
    from provision.doctor.rules import apply_rules, merged  # noqa: PLC0415

    env = read_environment(
        python, home=home, base=host.variables.get("PYTHONUSERBASE", "")
    )
    locked = lock and (env.prefix / RECORD).is_file() and lock.folder.name
    context = DoctorContext(
        env,
        host,
        devices,
        target,
        missing=tuple(missing_libraries(env, host, root=root)),
        foreign=foreign_symbols(env),
        files=read_installation(env),
        elsewhere=elsewhere(env, host.variables),
        repair=f"`provision verify {locked} --repair`" if locked else "",
    )
    findings = apply_rules(context)
    if lock is not None:
        from provision.environment.contents import read_contents  # noqa: PLC0415
        from provision.environment.verify import verify  # noqa: PLC0415

        forbid = target.pip.forbid if target else ()
        contents = read_contents(env.prefix, lock.folder.name)
        damage = verify(contents, lock, forbid, deep=False).findings
        findings = merged(
            context, findings, damage, {*lock.versions, *env.distributions}
        )
    return Diagnosis(str(python), tuple(worst_first(findings)), context.summary())
