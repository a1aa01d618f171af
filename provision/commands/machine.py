"""This machine, for verbs that compare it with targets or note its state."""

import functools
from collections.abc import Callable

from provision.catalog.devices import read_devices
from provision.core.project import Project
from provision.host.model import Host, host_layers
from provision.host.probe import read_host


def this_host(project: Project) -> Host:
    """Return this machine's facts, its devices named by the project's catalog."""
    return read_host(read_devices(project.catalog))


def host_reader(project: Project) -> Callable[[], Host]:
    """Return what reads this machine when it is first asked, and then gives the same value."""
    return functools.cache(functools.partial(this_host, project))


def read_layers(project: Project) -> dict[str, str]:
    """Return the layers of this host; see :func:`provision.host.model.host_layers`."""
    return host_layers(this_host(project))
