"""The verb ``detect``: which targets fit this machine, and why the others do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from provision.catalog.devices import Devices, read_devices
from provision.catalog.variants import Properties
from provision.commands.known_wrong import locked_torch, pinned_torch, rows_here
from provision.commands.machine import this_host
from provision.commands.variants import properties_of_host
from provision.core.errors import UsageError
from provision.core.platforms import ACCELERATORS, MAKERS, PLATFORMS
from provision.core.project import Project, shipped
from provision.host.compatibility import incompatibility, obstacles, old_libraries
from provision.host.drivers import NAMES, DriverVerdict, driver_version, judge_driver
from provision.host.intel import in_level_zero_order
from provision.host.known_wrong import known_wrong
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

    @property
    def rank(self) -> int:
        """The place in this order."""
        return list(FitVerdict).index(self)


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
    detection = detect(hardware or read_hardware(shipped().specs), host)
    devices = read_devices(project.catalog)
    advice = list(detection.advice)
    rows_of_chosen: tuple[str, ...] = ()
    for target in targets:
        if target.name == detection.chosen:
            torch = locked_torch(project.lock(target.name))
            advice += known_wrong(torch, target.accelerator, host, devices)
            rows_of_chosen = rows_here(torch, target.accelerator, host, devices)
    advice += _wrong_besides(detection, targets, rows_of_chosen, devices)
    for name, error in broken.items():
        advice.append(f"{name} is left out: {error.what}")
    return dataclasses.replace(
        detection,
        advice=tuple(advice),
        properties=properties_of_host(host, devices),
    )


def _wrong_besides(
    detection: Detection,
    targets: Sequence[Target],
    rows_of_chosen: Sequence[str],
    devices: Devices,
) -> list[str]:
    """Return one line for each other target that fits, but whose torch is more often wrong here."""
    host = detection.host
    lines = []
    fitting = {fit.target for fit in detection.fits if fit.verdict is FitVerdict.FITS}
    for target in targets:
        if target.name not in fitting:
            continue
        torch = pinned_torch(target)
        rows = rows_here(torch, target.accelerator, host, devices)
        more = [name for name in rows if name not in rows_of_chosen]
        if more and target.name != detection.chosen:
            lines.append(
                f"{target.name} has torch {torch}, which is known to be wrong "
                f"on this machine: {', '.join(more)}"
            )
    return lines


def choose_target(detection: Detection) -> str:
    """Return the target that ``auto`` stands for."""
    if detection.chosen is None:
        why = detection.host.elsewhere
        if detection.fits and not why:
            why = "; ".join(detection.fits[0].reasons)
        raise UsageError(
            f"no target fits this machine ({detection.host.platform})",
            evidence=why,
            remedy="add one to envs/, or build on a machine that is listed by "
            "`provision targets`",
        )
    return detection.chosen


def why_device_is_absent(target: Target, host: Callable[[], Host]) -> str:
    """Return why a target's device cannot be used on this machine; empty if it can."""
    if target.accelerator == "cpu":
        return ""
    (fit,) = detect([hardware_of(target)], host()).fits
    if fit.verdict is FitVerdict.FITS:
        return ""
    return "; ".join(fit.reasons)


def fitting_shipped_targets(project: Project) -> list[str]:
    """Return the shipped target that fits this machine best, and that of its CPU."""
    host = this_host(project)
    every = read_hardware(shipped().specs)
    targets = [target for target in every if target.status == "supported"]
    chosen = choose_target(detect(targets, host))
    fitting = [chosen]
    for target in targets:
        is_of_cpu = target.accelerator == "cpu" and target.platform == host.platform
        if is_of_cpu and target.name != chosen:
            fitting.append(target.name)
    return fitting


def detect(targets: Sequence[TargetHardware], host: Host) -> Detection:
    """Compare every target with a machine; pure, and never fails.

    A real device comes before the CPU, a discrete GPU before an integrated one, CUDA before XPU; a
    legacy target comes last, unless it is all that there is for its device.
    """
    hidden_by = hidden(host)
    by_name = {target.name: target for target in targets}
    fits = [judge(target, host, hidden_by) for target in targets]
    served = set[str | None]()  # devices that supported targets are for
    for fit in fits:
        is_supported = by_name[fit.target].status == "supported"
        if is_supported and fit.verdict is not FitVerdict.NO:
            served.add(fit.device)

    def preference(fit: TargetFit) -> tuple[bool, int, bool, int]:
        """Return how well a target would fit, obstacles aside; less is better."""
        target = by_name[fit.target]
        is_legacy = target.status != "supported"
        device = 2 if target.accelerator == "cpu" else int(not fit.discrete)
        accelerator = list(ACCELERATORS).index(target.accelerator)
        return is_legacy and fit.device in served, device, is_legacy, accelerator

    # The name is last, so that the order does not depend on that of the files.
    fits.sort(key=lambda fit: (fit.verdict.rank, preference(fit), fit.target))
    chosen: str | None = None
    if fits and fits[0].verdict is FitVerdict.FITS:
        chosen = fits[0].target
    better = []
    for fit in fits:
        is_preferred = preference(fit) < preference(fits[0])
        if fit.verdict is FitVerdict.BLOCKED and is_preferred:
            better.append(fit)
    names = {gpu.address: _name(gpu) for gpu in host.gpus}
    hidden_gpus = [(names[address], by) for address, by in hidden_by.items()]
    return Detection(
        host=host,
        fits=tuple(fits),
        chosen=chosen,
        better=tuple(better),
        hidden=tuple(hidden_gpus),
        advice=tuple(_advice(host, fits)),
    )


def judge(
    target: TargetHardware, host: Host, hidden_by: Mapping[str, str]
) -> TargetFit:
    """Return whether one target fits; on several GPUs, for the one that fits it best."""
    vendor = ACCELERATORS[target.accelerator].vendor
    gpus = [gpu for gpu in host.gpus if gpu.vendor == vendor]
    verdict = FitVerdict.NO
    if target.platform != host.platform:
        words = PLATFORMS[target.platform].words
        reason = f"it is for {words}; this is {host.platform}"
    elif old := old_libraries(host, target.glibc):
        reason = f"{old}; a container of a newer distribution has it"
    elif target.accelerator == "cpu":
        verdict = FitVerdict.FITS
        reason = f"the CPU always works on {host.platform}"
    elif not gpus:
        reason = _no_gpu(vendor, host)
    else:
        fits = []
        for gpu in gpus:
            fits.append(_judge_gpu(target, gpu, host, hidden_by.get(gpu.address)))
        return min(fits, key=lambda fit: (fit.verdict.rank, not fit.discrete))
    return TargetFit(target.name, verdict, (reason,))


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
    name = _name(gpu)
    discrete = gpu.integrated is False
    reasons = [f"{name}: {reason}"]
    if target.reason and verdict is not FitVerdict.NO:
        reasons.append(target.reason)
    return TargetFit(target.name, verdict, tuple(reasons), remedy, name, discrete)


def _driver_note(target: TargetHardware, gpu: Gpu, host: Host) -> str:
    """Return the driver's version, and what is unknown about it and the GPU."""
    version = driver_version(gpu, host)
    driver = NAMES.get(gpu.vendor, "driver")
    note = f"its {driver}'s version is not visible"
    if version:
        note = f"{driver} {version}"
    if version and target.driver:
        judged = judge_driver(gpu, host, target.driver)
        if judged.verdict is DriverVerdict.UNKNOWN:
            note = f"unknown whether its driver is new enough: {judged.reason}"
    if gpu.vendor == "nvidia" and gpu.device_id and gpu.compute_capability is None:
        note += (
            "; unknown whether the wheels hold code for it: it is newer than the "
            "catalog"
        )
    return note


def _name(gpu: Gpu) -> str:
    return f"{gpu.name} at {gpu.address}"


def _advice(host: Host, fits: Sequence[TargetFit]) -> list[str]:
    advice = list(host.remarks)
    if all(fit.verdict is FitVerdict.NO for fit in fits if fit.device):
        advice += _elsewhere(host)
    advice += _selectors(host)
    for gpu in host.gpus:
        if gpu.resizable_bar is False and gpu.vendor == "intel":
            advice.append(f"{_name(gpu)}: resizable BAR is off, which costs much speed")
    for fit in fits:
        if fit.verdict is FitVerdict.BLOCKED:
            advice.append(f"{fit.target} would fit after: {fit.remedy}")
    return advice


def _selectors(host: Host) -> Iterator[str]:
    """Yield how to hide an integrated GPU: programs that use all devices would wait for it."""
    discrete, integrated = [], []
    for number, gpu in enumerate(in_level_zero_order(host)):
        if gpu.integrated:
            integrated.append(gpu.name)
        else:
            discrete.append(str(number))
    if discrete and integrated and "ONEAPI_DEVICE_SELECTOR" not in host.variables:
        selector = f"ONEAPI_DEVICE_SELECTOR=level_zero:{','.join(discrete)}"
        yield f"{selector} hides the {', '.join(dict.fromkeys(integrated))}"


def _elsewhere(host: Host) -> Iterable[str]:
    """Return where to go with a machine, or with GPUs, that no target is for; each once."""
    lines = [host.elsewhere] if host.elsewhere else []
    for gpu in host.gpus:
        if gpu.elsewhere:
            lines.append(f"{_name(gpu)}: {gpu.elsewhere}")
    return dict.fromkeys(lines)
