"""Collection of the context of the environment rules: everything is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.doctor.caches import driver_changed, read_caches
from provision.doctor.context import DoctorContext
from provision.doctor.libraries import missing_libraries
from provision.environment.installed import distributions_in

if TYPE_CHECKING:
    from pathlib import Path

    from provision.catalog.devices import Devices
    from provision.doctor.environment import Environment
    from provision.host.model import Host
    from provision.spec.model import Target


def collect_context(
    env: Environment,
    host: Host,
    devices: Devices,
    *,
    target: Target | None,
    home: Path | None,
    root: Path,
) -> DoctorContext:
    """Return the context of the rules; see :func:`provision.doctor.diagnose_environment`."""
    return DoctorContext(
        env=env,
        host=host,
        devices=devices,
        target=target,
        missing=tuple(missing_libraries(env, host, root=root)),
        elsewhere=distributions_in(_other_folders(env, host)),
        caches=tuple(read_caches(home)) if home else (),
        driver_changed=driver_changed(root),
    )


def _other_folders(env: Environment, host: Host) -> list[str]:
    """Return the folders of PYTHONPATH, and those that ``.pth`` files add."""
    separator = ";" if env.windows else ":"
    path = [folder for folder in host.variables.get("PYTHONPATH", "").split(separator) if folder]
    added = [line for _, line in env.pth if not line.startswith("import")]
    absolute = [str(env.site / line) for line in added]
    return [folder for folder in path + absolute if folder.rstrip("/\\") != str(env.site)]
