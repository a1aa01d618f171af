"""This machine, for verbs that compare it with targets or note its state."""

import functools
import os
from collections.abc import Callable

from provision.catalog.devices import read_devices
from provision.core.project import Project
from provision.host.model import Host, host_layers
from provision.host.probe import read_host

_DROPPED = "LD_LIBRARY_PATH"  # by which a shell can have another driver's libraries


def this_host(project: Project) -> Host:
    """Return this machine's facts, its devices named by the project's catalog."""
    return read_host(read_devices(project.catalog))


def host_of_checks(project: Project) -> Host:
    """Return this machine's facts as the checks find them, which get no LD_LIBRARY_PATH."""
    environ = {name: os.environ[name] for name in os.environ if name != _DROPPED}
    return read_host(read_devices(project.catalog), environ=environ)


def host_reader(project: Project) -> Callable[[], Host]:
    """Return what reads this machine for checks at its first call, and then gives the same value."""
    return functools.cache(functools.partial(host_of_checks, project))


def read_layers(project: Project) -> dict[str, str]:
    """Return the layers of this host; see :func:`provision.host.model.host_layers`."""
    return host_layers(host_of_checks(project))
