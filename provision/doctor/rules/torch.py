"""Rules on the build of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.data import data
from provision.environment.installed import name_of
from provision.environment.reading import list_names


def wrong_build(context: DoctorContext) -> Findings:
    """The local version tag of torch is not that of the target's accelerator."""
    torch, target = context.env.torch, context.target
    built = context.env.accelerator
    if torch is None or target is None or built in ("cpu", target.accelerator):
        return  # CpuBuild reports a CPU build
    yield case(
        "wrong-build",
        (f"torch {torch.version} is installed",),
        built=built,
        accelerator=target.accelerator,
        target=target.name,
    )


@unless("half-installed")
def cpu_build(context: DoctorContext) -> Findings:
    """Torch is a CPU build, but the machine, the target or other packages are for a GPU."""
    torch = context.env.torch
    if torch is None or context.env.accelerator != "cpu":
        return
    cards = [g for g in context.host.gpus if g.supported and g.vendor in ("intel", "nvidia")]
    meant = context.target.accelerator if context.target else None
    others = [] if meant else [*_for_cuda(context), *_replaced(context)]
    if meant == "cpu" or not (meant or cards or others):
        return
    why = "the machine has a GPU" if cards else "other packages are for CUDA"
    yield case(
        "cpu-build",
        (
            f"torch {torch.version} is a CPU build",
            *(f"the machine has {gpu.name}" for gpu in cards[:3]),
            *others[:3],
        ),
        level=Level.ERROR if meant else Level.WARNING,
        why=f"the target is for {meant}" if meant else why,
        target=context.target.name if context.target else "auto",
    )


def _for_cuda(context: DoctorContext) -> Iterator[str]:
    """Yield the installed packages that need a CUDA build of torch."""
    for dist in filter(None, map(context.env.get, data("packages")["for_cuda"])):
        yield f"{dist.name} {dist.version} is installed"


def _replaced(context: DoctorContext) -> Iterator[str]:
    """Yield traces of a CUDA build of torch that was replaced."""
    for nccl in context.env.like("nvidia-nccl-"):
        others = (several[0] for several in context.env.distributions.values())
        required = (line for dist in others if dist.name != "torch" for line in dist.requires)
        if not any(name_of(line) == nccl.name for line in required):
            yield f"{nccl.name} {nccl.version} is installed, and nothing requires it"
    for name in list_names(context.env.prefix / "conda-meta"):
        if re.match(r"pytorch-\d.*cuda", name):
            yield f"conda installed {name.removesuffix('.json')}"
