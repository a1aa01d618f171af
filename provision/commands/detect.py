"""The verb ``detect``: which targets fit this machine, and why the others do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from provision.catalog.devices import read_devices
from provision.catalog.variants import Properties
from provision.commands.known_wrong import (
    known_wrong_here,
    locked_torch,
    pinned_torch,
    rows_here,
)
from provision.commands.machine import this_host
from provision.commands.variants import properties_of_host
from provision.core.errors import UsageError
from provision.core.platforms import ACCELERATORS, MAKERS, PLATFORMS
from provision.core.project import Project, shipped
from provision.host.compatibility import incompatibility, obstacles, old_libraries
from provision.host.drivers import NAMES, DriverVerdict, driver_version, judge_driver
from provision.host.intel import in_level_zero_order
from provision.host.model import Gpu, Host
from provision.host.vendors import hidden
from provision.spec.parts import TargetHardware, hardware_of
from provision.spec.reader import (
    load_targets,
    misnamed_specs,
    read_hardware,
    target_names,
)

if TYPE_CHECKING:
    from provision.spec.model import Target


class FitVerdict(StrEnum):
    """Whether a target fits; in order, best first."""

    FITS = "fits"
    BLOCKED = "blocked"
    """The hardware is right, but something has to be repaired first."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class TargetFit:
    """Whether one target fits a machine."""

    target: str
    """Name of the target."""
    verdict: FitVerdict
    """`blocked`: the hardware is right, and something has to be repaired first."""
    reasons: tuple[str, ...]
    """Why; at least one."""
    remedy: str = ""
    """What would make a blocked target fit; "" otherwise."""
    device: str | None = None
    """Name and address of the GPU that it would use; null for the CPU."""
    discrete: bool = False
    """Whether that GPU is a separate card."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A machine, and which targets fit it."""

    host: Host
    """This machine."""
    fits: tuple[TargetFit, ...]
    """One entry per target, best first."""
    chosen: str | None
    """The target that `build auto` takes; null if none fits."""
    better: tuple[TargetFit, ...]
    """Blocked targets that would be chosen instead after their remedy."""
    hidden: tuple[tuple[str, str], ...]
    """The GPU, and the variable that hides it."""
    advice: tuple[str, ...]
    """Settings that help, and remarks on the machine."""
    properties: Properties = field(default_factory=dict)
    """Properties of wheel variants (PEP 825) that this machine has: namespace, feature, values, the
    best one first.
    """


def detect_machine(project: Project, host: Host) -> Detection:
    """Return which targets of a project fit this machine, and why the others do not."""
    # Outside of a project they are the shipped ones.
    targets, broken = load_targets(project.specs, target_names(project.specs))
    broken |= misnamed_specs(project.specs)
    hardware = [hardware_of(target) for target in targets]
    found = detect(hardware or read_hardware(shipped().specs), host)
    torch = locked_torch(project.lock(found.chosen)) if found.chosen else ""
    wrong = known_wrong_here(project, host, torch)
    wrong += _wrong_besides(project, found, targets, torch)
    left_out = [f"{name} is left out: {fault.what}" for name, fault in broken.items()]
    return dataclasses.replace(
        found,
        advice=(*found.advice, *wrong, *left_out),
        properties=properties_of_host(host, read_devices(project.catalog)),
    )


def _wrong_besides(
    project: Project, found: Detection, targets: Sequence[Target], chosen_torch: str
) -> list[str]:
    """Return one line for each other target that fits, but whose torch is more often wrong here."""
    fitting = {fit.target for fit in found.fits if fit.verdict is FitVerdict.FITS}
    others = [t for t in targets if t.accelerator == "xpu" and t.name in fitting]
    told = rows_here(project, found.host, chosen_torch)
    lines = []
    for target in others:
        torch = pinned_torch(target)
        rows = [n for n in rows_here(project, found.host, torch) if n not in told]
        if rows and target.name != found.chosen:
            lines.append(
                f"{target.name} has torch {torch}, which is known to be wrong "
                f"on this machine: {', '.join(rows)}"
            )
    return lines


def choose_target(found: Detection) -> str:
    """Return the target that ``auto`` stands for."""
    if found.chosen is None:
        why = found.host.elsewhere or "; ".join(
            r for fit in found.fits[:1] for r in fit.reasons
        )
        raise UsageError(
            f"no target fits this machine ({found.host.platform})",
            evidence=why,
            remedy="add one to envs/, or build on a machine that is listed by "
            "`provision targets`",
        )
    return found.chosen


def why_device_is_absent(target: Target, host: Callable[[], Host]) -> str:
    """Return why a target's device cannot be used on this machine; empty if it can."""
    if target.accelerator == "cpu":
        return ""
    (fit,) = detect([hardware_of(target)], host()).fits
    return "" if fit.verdict is FitVerdict.FITS else "; ".join(fit.reasons)


def fitting_shipped_targets(project: Project) -> list[str]:
    """Return the shipped target that fits this machine best, and that of its CPU."""
    targets = [t for t in read_hardware(shipped().specs) if t.status == "supported"]
    found = detect(targets, this_host(project))
    cpus = [
        t.name
        for t in targets
        if (t.accelerator, t.platform) == ("cpu", found.host.platform)
    ]
    return list(dict.fromkeys([choose_target(found), *cpus]))


def detect(targets: Sequence[TargetHardware], host: Host) -> Detection:
    """Compare every target with a machine; pure, and never fails.

    A real device comes before the CPU, a discrete GPU before an integrated one, CUDA before XPU; a
    legacy target comes last, unless it is all that there is for its device.
    """
    hidden_by = hidden(host)
    judged = [(target, judge(target, host, hidden_by)) for target in targets]
    served = {
        fit.device
        for target, fit in judged
        if target.status == "supported" and fit.verdict is not FitVerdict.NO
    }

    def preference(
        target: TargetHardware, fit: TargetFit
    ) -> tuple[bool, int, bool, int]:
        """Return how well a target would fit, obstacles aside; less is better."""
        legacy = target.status != "supported"
        device = 2 if target.accelerator == "cpu" else int(not fit.discrete)
        order = list(ACCELERATORS).index(target.accelerator)
        return (legacy and fit.device in served, device, legacy, order)

    # The name is last, so that the order does not depend on that of the files.
    judged.sort(
        key=lambda b: (list(FitVerdict).index(b[1].verdict), preference(*b), b[0].name)
    )
    fits = tuple(fit for _, fit in judged)
    # They are sorted: if any fits, the first one does.
    chosen = fits[0].target if fits and fits[0].verdict is FitVerdict.FITS else None
    names = {gpu.address: _name(gpu) for gpu in host.gpus}
    return Detection(
        host=host,
        fits=fits,
        chosen=chosen,
        better=tuple(
            fit
            for target, fit in judged
            if fit.verdict is FitVerdict.BLOCKED
            and preference(target, fit) < preference(*judged[0])
        ),
        hidden=tuple(
            (names[address], variable) for address, variable in hidden_by.items()
        ),
        advice=tuple(_advice(host, fits)),
    )


def judge(
    target: TargetHardware, host: Host, hidden_by: Mapping[str, str]
) -> TargetFit:
    """Return whether one target fits; on several GPUs, for the one that fits it best."""
    if target.platform != host.platform:
        reason = (
            f"it is for {PLATFORMS[target.platform].words}; this is {host.platform}"
        )
        return TargetFit(target.name, FitVerdict.NO, (reason,))
    if old := old_libraries(host, target.glibc):
        reason = f"{old}; a container of a newer distribution has it"
        return TargetFit(target.name, FitVerdict.NO, (reason,))
    if target.accelerator == "cpu":
        reason = f"the CPU always works on {host.platform}"
        return TargetFit(target.name, FitVerdict.FITS, (reason,))
    vendor = ACCELERATORS[target.accelerator].vendor
    gpus = [gpu for gpu in host.gpus if gpu.vendor == vendor]
    if not gpus:
        return TargetFit(target.name, FitVerdict.NO, (_no_gpu(vendor, host),))
    fits = [_judge_gpu(target, gpu, host, hidden_by.get(gpu.address)) for gpu in gpus]
    return min(
        fits, key=lambda fit: (list(FitVerdict).index(fit.verdict), not fit.discrete)
    )


def _no_gpu(vendor: str, host: Host) -> str:
    maker = MAKERS[vendor]
    if "wsl" in host.surroundings:
        return (
            f"WSL shows no {maker} GPU: no {maker} driver of Windows is mounted in /usr/lib/wsl; "
            "update it in Windows, then `wsl --update` and `wsl --shutdown`"
        )
    others = ", ".join(_name(gpu) for gpu in host.gpus) or "no GPU at all"
    where = "" if vendor == "apple" else " on the PCI bus"
    return f"there is no {maker} GPU{where} ({others})"


def _judge_gpu(
    target: TargetHardware, gpu: Gpu, host: Host, hidden_by: str | None
) -> TargetFit:
    remedy = ""
    if reason := incompatibility(target, gpu):
        verdict = FitVerdict.NO
    elif obstacle := next(obstacles(target, gpu, host, hidden_by), None):
        verdict = FitVerdict.BLOCKED
        _, reason, remedy = obstacle
    else:
        verdict = FitVerdict.FITS
        reason = _driver_note(target, gpu, host)
    name, discrete = _name(gpu), gpu.integrated is False
    lost = [target.reason] if target.reason and verdict is not FitVerdict.NO else []
    return TargetFit(
        target.name, verdict, (f"{name}: {reason}", *lost), remedy, name, discrete
    )


def _driver_note(target: TargetHardware, gpu: Gpu, host: Host) -> str:
    """Return the driver's version, and what is unknown about it and the GPU."""
    version = driver_version(gpu, host)
    driver = NAMES.get(gpu.vendor, "driver")
    notes = [
        f"{driver} {version}" if version else f"its {driver}'s version is not visible"
    ]
    if version and target.driver:
        judged = judge_driver(gpu, host, target.driver)
        if judged.verdict is DriverVerdict.UNKNOWN:
            notes = [f"unknown whether its driver is new enough: {judged.reason}"]
    if gpu.vendor == "nvidia" and gpu.device_id and gpu.compute_capability is None:
        notes.append(
            "unknown whether the wheels hold code for it: it is newer than the catalog"
        )
    return "; ".join(notes)


def _name(gpu: Gpu) -> str:
    return f"{gpu.name} at {gpu.address}"


def _advice(host: Host, fits: Sequence[TargetFit]) -> list[str]:
    found = list(host.remarks)
    if all(fit.verdict is FitVerdict.NO for fit in fits if fit.device):
        lines = (f"{_name(gpu)}: {gpu.elsewhere}" for gpu in host.gpus if gpu.elsewhere)
        found += filter(None, dict.fromkeys((host.elsewhere, *lines)))
    ordered = in_level_zero_order(host)
    discrete = [str(i) for i, gpu in enumerate(ordered) if not gpu.integrated]
    # Programs that spread their work over all devices would wait for the integrated GPU.
    if (
        discrete
        and len(discrete) < len(ordered)
        and "ONEAPI_DEVICE_SELECTOR" not in host.variables
    ):
        integrated = ", ".join(
            dict.fromkeys(gpu.name for gpu in ordered if gpu.integrated)
        )
        selector = f"ONEAPI_DEVICE_SELECTOR=level_zero:{','.join(discrete)}"
        found.append(f"{selector} hides the {integrated}")
    for gpu in host.gpus:
        if gpu.resizable_bar is False and gpu.vendor == "intel":
            found.append(f"{_name(gpu)}: resizable BAR is off, which costs much speed")
    blocked = [fit for fit in fits if fit.verdict is FitVerdict.BLOCKED]
    return found + [f"{fit.target} would fit after: {fit.remedy}" for fit in blocked]
