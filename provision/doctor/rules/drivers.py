"""The rule on GPU drivers: whether they are new enough for the environment's torch and target."""

from provision.core.platforms import ACCELERATORS
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.host.compatibility import missing_runtimes
from provision.host.drivers import DriverVerdict, driver_remedy, judge_driver
from provision.host.known_wrong import known_wrong


@unless("driver-missing", "unsupported-gpu-architecture")
def old_driver(context: DoctorContext) -> Findings:
    """The driver is older than what this torch was built with, or nobody can tell."""
    host = context.host
    unknown = None
    for gpu in context.usable_gpus:
        bounds = [*_required_drivers(context), gpu.least_driver]
        for required in filter(None, bounds):
            judged = judge_driver(gpu, host, required, context.devices)
            if judged.verdict is DriverVerdict.TOO_OLD:
                yield case(
                    "old-driver",
                    judged.evidence,
                    required=required,
                    remedy=driver_remedy(gpu, host, required),
                )
                return
            # Without a runtime there is no driver to ask.
            undecided = judged.verdict is DriverVerdict.UNKNOWN
            if undecided and not any(missing_runtimes(gpu, host)):
                unknown = unknown or case(
                    "unknown-driver",
                    judged.evidence,
                    required=required,
                    reason=judged.reason,
                )
    if unknown:
        yield unknown


def known_wrong_numbers(context: DoctorContext) -> Findings:
    """This torch and this driver compute wrong numbers together, as the catalog has it."""
    torch = context.env.get("torch")
    accelerator = context.accelerator
    if accelerator not in ACCELERATORS or torch is None or torch.parsed is None:
        return
    for line in known_wrong(torch.version, accelerator, context.host, context.devices):
        yield case("known-wrong", [line])


def _required_drivers(context: DoctorContext) -> list[str]:
    """Return the bounds of the target, of torch's CUDA, and of the XPU runtimes of torch."""
    env, platform = context.env, context.host.platform
    bounds = []
    if context.target and context.target.hardware.driver:
        bounds.append(context.target.hardware.driver)
    if env.torch and env.torch.cuda:
        least = context.devices.least_driver(env.torch.cuda, platform)
        if least:
            bounds.append(f">={least}")
    torch = env.get("torch")
    if env.accelerator == "xpu" and torch and torch.parsed:
        for floor in data("packages")["xpu_floor"]:
            least_torch = tuple(floor["torch"])
            if torch.parsed.release[:2] >= least_torch and platform in floor:
                bounds.append(floor[platform])
    return bounds
