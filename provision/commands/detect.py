"""The verb ``detect``: which targets fit this machine, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from provision.host.drivers import (
    DriverVerdict,
    driver_remedy,
    driver_version,
    judge_driver,
    satisfies,
)
from provision.host.visibility import hidden, in_level_zero_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provision.host.model import Gpu, Host, Node
    from provision.spec.hardware import TargetHardware

_VENDORS = {"cuda": "nvidia", "xpu": "intel"}
_MAKERS = {"nvidia": "NVIDIA", "intel": "Intel", "amd": "AMD"}
_ANY_OS = {"linux-64": "Linux on x86-64", "win-64": "Windows on x86-64"}


class Verdict(StrEnum):
    """Whether a target fits; in order, best first."""

    FITS = "fits"
    BLOCKED = "blocked"
    """The hardware is right, but something has to be mended first."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Fit:
    """The judgement on one target.

    Attributes:
        target: Its name.
        verdict: Whether it fits.
        reasons: Why; at least one.
        remedy: What would make a blocked target fit; "" otherwise.
        device: Name and address of the GPU it would use; None for the CPU.
        discrete: Whether that GPU is a card of its own.
    """

    target: str
    verdict: Verdict
    reasons: tuple[str, ...]
    remedy: str = ""
    device: str | None = None
    discrete: bool = False


@dataclass(frozen=True, slots=True)
class Detection:
    """What a machine is and what fits it.

    Attributes:
        host: The machine.
        fits: One judgement per target, best first.
        chosen: The target that ``build auto`` takes; None if none fits.
        better: Blocked targets that would be chosen before it, once their remedy is applied.
        hidden: GPUs that a selector variable hides: name and address, and the variable.
        advice: Sentences worth telling: settings that help, and remarks on the machine.
    """

    host: Host
    fits: tuple[Fit, ...]
    chosen: str | None
    better: tuple[Fit, ...]
    hidden: tuple[tuple[str, str], ...]
    advice: tuple[str, ...]


def detect(targets: Sequence[TargetHardware], host: Host) -> Detection:
    """Judge every target against a machine; pure, and never fails.

    Supported targets come before legacy ones, a real device before the CPU, a discrete GPU before
    an integrated one, CUDA before XPU.
    """
    covered = hidden(host)
    judged = [(target, judge(target, host, covered)) for target in targets]
    judged.sort(key=lambda pair: _rank(*pair))
    fits = tuple(fit for _, fit in judged)
    # They are sorted: if any fits, the first one does.
    chosen = fits[0].target if fits and fits[0].verdict is Verdict.FITS else None
    names = {gpu.address: _name(gpu) for gpu in host.gpus}
    return Detection(
        host=host,
        fits=fits,
        chosen=chosen,
        better=tuple(
            fit
            for target, fit in judged
            if fit.verdict is Verdict.BLOCKED and _merit(target, fit) < _merit(*judged[0])
        ),
        hidden=tuple((names[address], why) for address, why in covered.items()),
        advice=tuple(_advice(host, fits)),
    )


def _rank(target: TargetHardware, fit: Fit) -> tuple[int, tuple[bool, int, bool], str]:
    return (list(Verdict).index(fit.verdict), _merit(target, fit), target.name)


def _merit(target: TargetHardware, fit: Fit) -> tuple[bool, int, bool]:
    """Return how well a target would serve if nothing stood in its way; less is better."""
    order = {"cuda": 0, "xpu": 0 if fit.discrete else 1, "cpu": 2}
    return (target.status != "supported", order[target.accelerator], target.accelerator != "cuda")


def judge(target: TargetHardware, host: Host, covered: Mapping[str, str]) -> Fit:
    """Return the judgement on one target; ``covered`` are the hidden GPUs by address."""
    if target.platform != host.platform:
        wanted = _ANY_OS[target.platform]
        return Fit(target.name, Verdict.NO, (f"it is for {wanted}; this is {host.platform}",))
    if target.accelerator == "cpu":
        return Fit(target.name, Verdict.FITS, (f"the CPU always works on {host.platform}",))
    vendor = _VENDORS[target.accelerator]
    gpus = [gpu for gpu in host.gpus if gpu.vendor == vendor]
    if not gpus:
        return Fit(target.name, Verdict.NO, (_none_of(vendor, host),))
    fits = [_judge_gpu(target, gpu, host, covered.get(gpu.address)) for gpu in gpus]
    return min(fits, key=lambda fit: (list(Verdict).index(fit.verdict), not fit.discrete))


def _none_of(vendor: str, host: Host) -> str:
    maker = _MAKERS[vendor]
    if "wsl" in host.surroundings:
        return (
            f"WSL shows no {maker} GPU: no {maker} driver of Windows is mounted in /usr/lib/wsl; "
            "update it in Windows, then `wsl --update` and `wsl --shutdown`"
        )
    others = ", ".join(_name(gpu) for gpu in host.gpus) or "no GPU at all"
    return f"there is no {maker} GPU on the PCI bus ({others})"


def _judge_gpu(target: TargetHardware, gpu: Gpu, host: Host, covered: str | None) -> Fit:
    unfit = _unfit(target, gpu)
    if unfit:
        return _fit(target, gpu, Verdict.NO, unfit)
    for reason, remedy in _blocks(target, gpu, host, covered):
        return _fit(target, gpu, Verdict.BLOCKED, reason, remedy)
    return _fit(target, gpu, Verdict.FITS, _driver_note(target, gpu, host))


def _driver_note(target: TargetHardware, gpu: Gpu, host: Host) -> str:
    """Return the driver's version, and what is unknown about it and the GPU."""
    version = driver_version(gpu, host)
    notes = [f"driver {version}" if version else "its driver's version is not visible"]
    if version and target.driver:
        judged = judge_driver(gpu, host, target.driver)
        if judged.verdict is DriverVerdict.UNKNOWN:
            notes = [f"unknown whether its driver is new enough: {judged.reason}"]
    if gpu.vendor == "nvidia" and gpu.device_id and gpu.compute_capability is None:
        notes.append("unknown whether the wheels hold code for it: it is newer than the catalog")
    return "; ".join(notes)


def _fit(target: TargetHardware, gpu: Gpu, verdict: Verdict, reason: str, remedy: str = "") -> Fit:
    name = _name(gpu)
    return Fit(target.name, verdict, (f"{name}: {reason}",), remedy, name, gpu.integrated is False)


def _name(gpu: Gpu) -> str:
    return f"{gpu.name} at {gpu.address}"


def _unfit(target: TargetHardware, gpu: Gpu) -> str:
    """Return why no repair would make this GPU serve the target, or ""."""
    if gpu.family is None and gpu.compute_capability is None and not gpu.supported:
        return "" if not gpu.device_id else f"device id {gpu.device_id} is not in the catalog"
    if not gpu.supported:
        return f"PyTorch has no {target.accelerator.upper()} kernels for its family {gpu.family}"
    if target.families and gpu.family and gpu.family not in target.families:
        return f"its family {gpu.family} is none of {', '.join(target.families)}"
    capability = gpu.compute_capability
    wanted = target.compute_capability
    if wanted and capability and not satisfies(capability, wanted):
        return f"compute capability {capability} is not {wanted}"
    return ""


def _blocks(
    target: TargetHardware, gpu: Gpu, host: Host, covered: str | None
) -> list[tuple[str, str]]:
    """Return what has to be mended before the GPU serves the target, causes first."""
    maker = _MAKERS[gpu.vendor]
    found: list[tuple[str, str]] = []
    if not gpu.device_id and gpu.vendor == "intel":
        found.append(
            (
                "WSL does not show which model it is",
                f"if it is an Arc or a Core Ultra, run `provision build {target.name}`",
            )
        )
    if gpu.driver is None:
        found.append(("no driver is bound to it", f"install {maker}'s driver, then restart"))
    found += [_blocked_node(node, host) for node in gpu.nodes if not node.usable]
    found += _driver_blocks(target, gpu, host)
    if covered is not None:
        found.append((f"{covered} hides it", f"unset {covered.partition('=')[0]}"))
    return found


def _blocked_node(node: Node, host: Host) -> tuple[str, str]:
    if not node.present:
        inside = [layer for layer in host.surroundings if layer not in ("wsl", "vm")]
        if inside:
            return (
                f"{node.path} is not in this {inside[-1]} container",
                f"start the container with --device {node.path.rpartition('/')[0]}, or --gpus all",
            )
        return (f"{node.path} does not exist", "load the kernel driver again, or restart")
    return (
        f"this user may not use {node.path}, which belongs to group {node.group}",
        f"sudo usermod -aG {node.group} $USER, then log in again",
    )


def _driver_blocks(target: TargetHardware, gpu: Gpu, host: Host) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if gpu.vendor == "intel" and host.platform == "linux-64" and "wsl" not in host.surroundings:
        if host.runtimes.compute_runtime is None:
            found.append(
                (
                    "Intel's user-mode driver libze_intel_gpu.so.1 is not installed",
                    "install libze-intel-gpu1 (older name: intel-level-zero-gpu)",
                )
            )
        if host.runtimes.level_zero is None:
            found.append(("the Level Zero loader libze_loader.so.1 is absent", "install libze1"))
    if target.driver:
        judged = judge_driver(gpu, host, target.driver)
        if judged.verdict is DriverVerdict.TOO_OLD:
            remedy = driver_remedy(gpu, host, target.driver)
            found.append((judged.reason, remedy[0].lower() + remedy[1:]))
    return found


def _advice(host: Host, fits: Sequence[Fit]) -> list[str]:
    found = list(host.remarks)
    ordered = in_level_zero_order(host)
    discrete = [str(i) for i, gpu in enumerate(ordered) if not gpu.integrated]
    if discrete and len(discrete) < len(ordered) and "ONEAPI_DEVICE_SELECTOR" not in host.variables:
        shown = ", ".join(dict.fromkeys(gpu.name for gpu in ordered if gpu.integrated))
        found.append(f"ONEAPI_DEVICE_SELECTOR=level_zero:{','.join(discrete)} hides the {shown}")
    for gpu in host.gpus:
        if gpu.resizable_bar is False and gpu.vendor == "intel":
            found.append(
                f"{_name(gpu)}: resizable BAR is off, which costs much speed; see the BIOS"
            )
        if gpu.link and gpu.link.width < gpu.link.max_width:
            found.append(f"{_name(gpu)}: {gpu.link.width} of {gpu.link.max_width} PCIe lanes")
    blocked = [fit for fit in fits if fit.verdict is Verdict.BLOCKED]
    return found + [f"{fit.target} would fit after: {fit.remedy}" for fit in blocked]
