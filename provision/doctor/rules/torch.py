"""Rules on the build of torch."""

import re
from collections.abc import Iterator

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.rules.intel import CUDA_ONLY
from provision.environment.installed import name_of
from provision.environment.reading import list_names


def wrong_build(context: DoctorContext) -> Findings:
    """The local version tag of torch is not that of the target's accelerator."""
    torch, target = context.env.torch, context.target
    built = context.env.accelerator
    if torch is None or target is None or built in ("cpu", target.accelerator):
        return  # CpuBuild reports a CPU build
    evidence = (f"torch {torch.version} is installed",)
    yield case("wrong-build", evidence, built=built, target=target)


@unless("half-installed")
def cpu_build(context: DoctorContext) -> Findings:
    """Torch is a CPU build, but the machine, the target or other packages are for a GPU."""
    torch = context.env.torch
    if torch is None or context.env.accelerator != "cpu":
        return
    cards = [
        g for g in context.host.gpus if g.supported and g.vendor in ("intel", "nvidia")
    ]
    meant = context.target.accelerator if context.target else None
    others = [] if meant else [*_for_cuda(context), *_replaced(context)]
    if meant in ("cpu", "mps") or not (
        meant or cards or others
    ):  # a Mac's build is for both
        return
    why = "the machine has a GPU" if cards else "other packages are for CUDA"
    why = f"the target is for {meant}" if meant else why
    has = [f"the machine has {gpu.name}" for gpu in cards[:3]]
    evidence = (f"torch {torch.version} is a CPU build", *has, *others[:3])
    target = context.target.name if context.target else "auto"
    level = Level.ERROR if meant else Level.WARNING
    yield case("cpu-build", evidence, level=level, why=why, target=target)


def _for_cuda(context: DoctorContext) -> Iterator[str]:
    """Yield the installed packages that need a CUDA build of torch."""
    for dist in filter(None, map(context.env.get, CUDA_ONLY)):
        yield f"{dist} is installed"


def _replaced(context: DoctorContext) -> Iterator[str]:
    """Yield traces of a CUDA build of torch that was replaced."""
    others = [dist for dist in context.env.dists if dist.name != "torch"]
    for nccl in (dist for dist in others if dist.name.startswith("nvidia-nccl-")):
        if nccl.name not in (
            name_of(line) for dist in others for line in dist.requires
        ):
            yield f"{nccl} is installed, and nothing requires it"
    for name in list_names(context.env.prefix / "conda-meta"):
        if re.match(r"pytorch-\d.*cuda", name):
            yield f"conda installed {name.removesuffix('.json')}"
