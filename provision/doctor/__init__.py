"""Name the culprit: a log or an environment to findings, worst first, causes before symptoms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.doctor.logs import diagnose_evidence, diagnose_log

if TYPE_CHECKING:
    from provision.catalog.devices import Devices
    from provision.core.findings import Diagnosis
    from provision.host.model import Host
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target

__all__ = ["diagnose_environment", "diagnose_evidence", "diagnose_log", "diagnose_machine"]


def diagnose_machine(host: Host, devices: Devices) -> Diagnosis:
    """Return what keeps programs of any environment from this machine's GPUs, worst first."""
    from provision.core.findings import Diagnosis, worst_first  # noqa: PLC0415
    from provision.doctor.context import DoctorContext  # noqa: PLC0415
    from provision.doctor.environment import Environment  # noqa: PLC0415 - a log needs none
    from provision.doctor.rules import MACHINE, judge  # noqa: PLC0415
    from provision.host.model import host_layers  # noqa: PLC0415

    usable = {gpu.vendor for gpu in host.gpus if gpu.supported}
    meant = [name for name, vendor in (("cuda", "nvidia"), ("xpu", "intel")) if vendor in usable]
    nothing = Environment(Path(), Path())
    found = [
        finding
        for name in meant or ["cpu"]
        for finding in judge(DoctorContext(nothing, host, devices, assumed=name), MACHINE)
    ]
    return Diagnosis(
        "this machine", tuple(worst_first(list(dict.fromkeys(found)))), host_layers(host)
    )


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
    """Return what is wrong with an environment, worst first; nothing of it is run or imported.

    Args:
        python: Its interpreter or its folder.
        host: The machine, whose environment variables are judged too.
        devices: The device catalog.
        target: What it is meant to be; None for a foreign environment.
        lock: What should be installed; None leaves drift out.
        home: The user's home, with per-user packages and caches; None leaves them out.
        root: The file system that holds the system's libraries.

    Raises:
        UsageError: There is no Python environment at that path.
    """
    from provision.core.findings import Diagnosis, worst_first  # noqa: PLC0415
    from provision.doctor.collect import collect_context  # noqa: PLC0415
    from provision.doctor.environment import read_environment  # noqa: PLC0415 - a log needs none
    from provision.doctor.rules import judge  # noqa: PLC0415

    env = read_environment(python, home=home)
    context = collect_context(env, host, devices, target=target, home=home, root=root)
    findings = judge(context)
    if lock is not None:
        from provision.environment.verify import verify  # noqa: PLC0415

        forbid = target.pip.forbid if target else ()
        findings += verify(env.prefix, lock, forbid, deep=False).findings
    return Diagnosis(str(python), tuple(worst_first(findings)), context.summary())
