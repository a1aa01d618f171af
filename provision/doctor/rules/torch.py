"""Rules on the build of torch."""

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.rules.intel import CUDA_ONLY


def wrong_build(context: DoctorContext) -> Findings:
    """The local version tag of torch is not that of the target's accelerator."""
    torch, target = context.env.torch, context.target
    built = context.env.accelerator
    if torch and target and built not in ("cpu", target.accelerator):
        evidence = (f"torch {torch.version} is installed",)
        yield case("wrong-build", evidence, built=built, target=target)


@unless("half-installed")
def cpu_build(context: DoctorContext) -> Findings:
    """Torch is a CPU build, but the machine, the target or other packages are for a GPU."""
    env, target = context.env, context.target
    if env.torch is None or env.accelerator != "cpu":
        return
    evidence = [f"torch {env.torch.version} is a CPU build"]
    if target:
        if target.accelerator in ("cpu", "mps"):  # a Mac's build is for both
            return
        why = f"the target is for {target.accelerator}"
        level = Level.ERROR
    else:
        gpus = [*context.gpus("intel"), *context.gpus("nvidia")]
        gpus = [gpu for gpu in gpus if gpu.supported]
        cuda = env.present(CUDA_ONLY)
        evidence += [f"the machine has {gpu.name}" for gpu in gpus[:3]]
        evidence += [f"{dist} is installed" for dist in cuda]
        why = "the machine has a GPU" if gpus else "other packages are for CUDA"
        level = Level.WARNING
    if target or len(evidence) > 1:
        name = target.name if target else "auto"
        yield case("cpu-build", evidence, level=level, why=why, target=name)
