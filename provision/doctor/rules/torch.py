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
    torch = f"torch {env.torch.version} is a CPU build"
    if target:
        if target.accelerator not in ("cpu", "mps"):  # a Mac's build is for both
            yield case(
                "cpu-build",
                [torch],
                level=Level.ERROR,
                why=f"the target is for {target.accelerator}",
                target=target.name,
            )
        return
    machine = []
    for gpu in (*context.gpus("intel"), *context.gpus("nvidia")):
        if gpu.supported:
            machine.append(f"the machine has {gpu.name}")
    packages = [f"{dist} is installed" for dist in env.present(CUDA_ONLY)]
    if machine or packages:
        why = "the machine has a GPU" if machine else "other packages are for CUDA"
        evidence = [torch, *machine[:3], *packages]
        yield case("cpu-build", evidence, why=why, target="auto")
