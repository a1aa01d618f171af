"""Diagnosis of a log, an environment or a machine, each of which imports only what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.findings import Diagnosis, Finding, worst_first
from provision.doctor.logs import diagnose_evidence, diagnose_log

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.doctor.environment import Environment
    from provision.host.model import Host
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target

__all__ = ["diagnose_environment", "diagnose_evidence", "diagnose_log", "diagnose_machine"]


def diagnose_machine(host: Host, devices: Devices) -> Diagnosis:
    """Return what prevents programs of any environment from using this machine's GPUs."""
    from provision.core.platforms import ACCELERATORS  # noqa: PLC0415
    from provision.doctor.context import DoctorContext  # noqa: PLC0415
    from provision.doctor.environment import Environment  # noqa: PLC0415
    from provision.doctor.rules import MACHINE_RULES, apply_rules  # noqa: PLC0415
    from provision.host.model import host_layers  # noqa: PLC0415

    usable = {gpu.vendor for gpu in host.gpus if gpu.supported}
    accelerators = [name for name, known in ACCELERATORS.items() if known.vendor in usable]
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
    from provision.doctor.installation import read_installation, stale_caches  # noqa: PLC0415
    from provision.doctor.libraries import foreign_symbols, missing_libraries  # noqa: PLC0415
    from provision.doctor.rules import apply_rules  # noqa: PLC0415
    from provision.environment.installed import distributions_in  # noqa: PLC0415

    env = read_environment(python, home=home)
    context = DoctorContext(
        env, host, devices, target,
        missing=tuple(missing_libraries(env, host, root=root)), foreign=foreign_symbols(env),
        files=read_installation(env), elsewhere=distributions_in(_other_folders(env, host)),
        stale_caches=stale_caches(home, root) if home else (),
    )  # fmt: skip
    findings = apply_rules(context)
    if lock is not None:
        from provision.environment.verify import verify  # noqa: PLC0415

        forbid = target.pip.forbid if target else ()
        findings += verify(env.prefix, lock, forbid, deep=False).findings
    return Diagnosis(str(python), tuple(worst_first(findings)), context.summary())


def _other_folders(env: Environment, host: Host) -> list[str]:
    """Return the folders of PYTHONPATH, and those that ``.pth`` files add."""
    separator = ";" if env.windows else ":"
    path = [folder for folder in host.variables.get("PYTHONPATH", "").split(separator) if folder]
    added = [str(env.site / line) for _, line in env.pth if not line.startswith("import")]
    return [folder for folder in path + added if folder.rstrip("/\\") != str(env.site)]
