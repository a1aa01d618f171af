"""Rules on GPU drivers: whether they are new enough for the environment's torch and target."""

from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.compatibility import missing_runtimes
from provision.host.drivers import (
    DriverJudgement,
    DriverVerdict,
    driver_remedy,
    judge_driver,
)
from provision.host.model import Gpu


@unless("driver-missing", "unsupported-gpu-architecture")
def old_driver(context: DoctorContext) -> Findings:
    """The driver is older than what this torch was built with, or nobody can tell."""
    first: dict[DriverVerdict, tuple[Gpu, str, DriverJudgement]] = {}
    for gpu in context.own_gpus:
        for required in (
            (*_wanted_driver(context), gpu.least_driver) if gpu.supported else ()
        ):
            if required:
                judged = judge_driver(gpu, context.host, required, context.devices)
                first.setdefault(judged.verdict, (gpu, required, judged))
    if old := first.get(DriverVerdict.TOO_OLD):
        gpu, required, judged = old
        remedy = driver_remedy(gpu, context.host, required)
        yield case("old-driver", judged.evidence, required=required, remedy=remedy)
    elif unknown := first.get(DriverVerdict.UNKNOWN):
        gpu, required, judged = unknown
        if not [*missing_runtimes(gpu, context.host)]:  # else there is no driver to ask
            yield case(
                "unknown-driver",
                judged.evidence,
                required=required,
                reason=judged.reason,
            )


def _wanted_driver(context: DoctorContext) -> list[str]:
    hardware = context.target.hardware if context.target else None
    wanted = [hardware.driver] if hardware and hardware.driver else []
    torch, platform = context.env.torch, context.host.platform
    if (
        torch
        and torch.cuda
        and (least := context.devices.least_driver(torch.cuda, platform))
    ):
        wanted.append(f">={least}")
    version = context.env.get("torch")
    if context.env.accelerator == "xpu" and version and version.parsed:
        own = version.parsed.release[:2]
        floors = [f for f in data("packages")["xpu_floor"] if own >= tuple(f["torch"])]
        wanted += [floor[platform] for floor in floors if platform in floor]
    return wanted
