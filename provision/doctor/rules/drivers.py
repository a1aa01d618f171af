"""Rules on GPU drivers: whether they are new enough for the environment's torch and target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.doctor.rules.case import case, unless
from provision.host.drivers import DriverVerdict, driver_remedy, judge_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
    from provision.doctor.context import DoctorContext
    from provision.host.drivers import DriverJudgement
    from provision.host.model import Gpu

# The runtimes of torch 2.13+xpu (oneAPI 2026) fail with compute-runtime 24.39 and work with
# 25.18; on Windows 32.0.101.6129 fails, as `could not make an engine with allocator`.
_XPU_FLOORS = {(2, 13): {"linux-64": ">=25.18", "win-64": ">32.0.101.6129"}}


@unless("driver-missing", "unsupported-gpu-architecture")
def old_driver(context: DoctorContext) -> Iterator[Finding]:
    """The driver is older than what this torch was built with."""
    for gpu, required, judged in _first_judged(context, DriverVerdict.TOO_OLD):
        remedy = driver_remedy(gpu, context.host, required)
        yield case("old-driver", judged.evidence, required=required, remedy=remedy)


@unless(
    "driver-missing", "unsupported-gpu-architecture", "driver-too-old", "oneapi-runtime-missing"
)
def unknown_driver(context: DoctorContext) -> Iterator[Finding]:
    """Whether the driver is new enough for this torch cannot be told."""
    for _, required, judged in _first_judged(context, DriverVerdict.UNKNOWN):
        yield case("unknown-driver", judged.evidence, required=required, reason=judged.reason)


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


RULES = (old_driver, unknown_driver)
