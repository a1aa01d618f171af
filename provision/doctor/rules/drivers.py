"""Rules on GPU drivers: whether they are new enough for the environment's torch and target."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.host.drivers import DriverVerdict, driver_remedy, judge_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.host.drivers import DriverJudgement
    from provision.host.model import Gpu

# The runtimes of torch 2.13+xpu (oneAPI 2026) fail with compute-runtime 24.39 and work with
# 25.18; on Windows 32.0.101.6129 fails, as `could not make an engine with allocator`.
_XPU_FLOORS = {(2, 13): {"linux-64": ">=25.18", "win-64": ">32.0.101.6129"}}


class OldDriver:
    """The driver is older than what this torch was built with."""

    code: ClassVar[str] = "driver-too-old"
    unless: ClassVar[tuple[str, ...]] = ("driver-missing", "unsupported-gpu-architecture")

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        for gpu, required, judged in _first_judged(context, DriverVerdict.TOO_OLD):
            remedy = driver_remedy(gpu, context.host, required)
            yield Finding(
                self.code,
                Level.ERROR,
                "The GPU's driver is too old for this environment",
                f"It needs a driver {required}",
                f"{remedy}, then `provision smoke TARGET --if-driver-changed`",
                judged.evidence,
            )


class UnknownDriver:
    """Whether the driver is new enough for this torch cannot be told."""

    code: ClassVar[str] = "driver-unknown"
    unless: ClassVar[tuple[str, ...]] = (
        *OldDriver.unless,
        OldDriver.code,
        "oneapi-runtime-missing",
    )

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is unknown."""
        for _, required, judged in _first_judged(context, DriverVerdict.UNKNOWN):
            yield Finding(
                self.code,
                Level.NOTE,
                "Whether the GPU's driver is new enough is unknown",
                f"It needs a driver {required}, and {judged.reason}",
                "`provision smoke TARGET` asks the driver itself",
                judged.evidence,
            )


def _first_judged(
    context: DoctorContext, verdict: DriverVerdict
) -> Iterator[tuple[Gpu, str, DriverJudgement]]:
    """Yield the first judgement with this verdict, with its GPU and requirement."""
    for gpu in context.own_gpus:
        for required in _wanted_driver(context) if gpu.supported else ():
            judged = judge_driver(gpu, context.host, required, context.devices)
            if judged.verdict is verdict:
                yield gpu, required, judged
                return


def _wanted_driver(context: DoctorContext) -> list[str]:
    hardware = context.target.hardware if context.target else None
    wanted = [hardware.driver] if hardware and hardware.driver else []
    torch, platform = context.env.torch, context.host.platform
    if torch and torch.cuda and (least := context.devices.least_driver(torch.cuda, platform)):
        wanted.append(f">={least}")
    version = context.env.get("torch")
    if context.env.accelerator == "xpu" and version and version.parsed:
        for release, floors in _XPU_FLOORS.items():
            if version.parsed.release[:2] >= release and platform in floors:
                wanted.append(floors[platform])
    return wanted


RULES = (OldDriver(), UnknownDriver())
