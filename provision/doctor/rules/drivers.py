"""Rules on GPU drivers: whether they are new enough for the environment's torch and target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.drivers import DriverJudgement, DriverVerdict, driver_remedy, judge_driver

if TYPE_CHECKING:
    from provision.host.model import Gpu


@unless("driver-missing", "unsupported-gpu-architecture")
def old_driver(context: DoctorContext) -> Findings:
    """The driver is older than what this torch was built with."""
    for gpu, required, judged in _first_judged(context, DriverVerdict.TOO_OLD):
        remedy = driver_remedy(gpu, context.host, required)
        yield case("old-driver", judged.evidence, required=required, remedy=remedy)


@unless(
    "driver-missing", "unsupported-gpu-architecture", "driver-too-old", "oneapi-runtime-missing"
)
def unknown_driver(context: DoctorContext) -> Findings:
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
        own = version.parsed.release[:2]
        floors = [f for f in data("packages")["xpu_floor"] if own >= tuple(f["torch"])]
        wanted += [floor[platform] for floor in floors if platform in floor]
    return wanted
