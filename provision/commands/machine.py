"""This machine, for verbs that compare it with targets or note its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.errors import UsageError
from provision.core.project import Project, shipped
from provision.spec.reader import read_hardware

if TYPE_CHECKING:
    from provision.commands.detect import Detection
    from provision.host.model import Host
    from provision.spec.model import Target

# Reading a machine is the slow part of many verbs, so nothing of it is loaded before it is asked.
# ruff: noqa: PLC0415


def this_host(project: Project) -> Host:
    """Return this machine's facts, its devices named by the project's catalog."""
    from provision.catalog.devices import read_devices
    from provision.host.probe import read_host

    return read_host(read_devices(project.catalog))


def read_layers(project: Project) -> dict[str, str]:
    """Return the layers of this host; see :func:`provision.host.model.host_layers`."""
    from provision.host.model import host_layers

    return host_layers(this_host(project))


def detect_machine(project: Project) -> Detection:
    """Return which targets of a project fit this machine, and why the others do not."""
    # Outside of a project they are the shipped ones.
    from provision.commands.detect import detect

    targets = read_hardware(project.specs) or read_hardware(shipped().specs)
    return detect(targets, this_host(project))


def choose_target(found: Detection) -> str:
    """Return the target that ``auto`` stands for."""
    if found.chosen is None:
        why = found.host.elsewhere or "; ".join(r for fit in found.fits[:1] for r in fit.reasons)
        raise UsageError.of("no-fitting-target", why, platform=found.host.platform)
    return found.chosen


def why_device_is_absent(project: Project, target: Target) -> str:
    """Return why a target's device cannot be used on this machine; empty if it can."""
    from provision.commands.detect import Verdict, detect
    from provision.spec.parts import hardware_of

    if target.accelerator == "cpu":
        return ""
    (fit,) = detect([hardware_of(target.model_dump())], this_host(project)).fits
    return "" if fit.verdict is Verdict.FITS else "; ".join(fit.reasons)


def fitting_shipped_targets(project: Project) -> list[str]:
    """Return the shipped target that fits this machine best, and that of its CPU."""
    from provision.commands.detect import detect

    targets = [t for t in read_hardware(shipped().specs) if t.status == "supported"]
    found = detect(targets, this_host(project))
    cpus = [t.name for t in targets if (t.accelerator, t.platform) == ("cpu", found.host.platform)]
    return list(dict.fromkeys([choose_target(found), *cpus]))
