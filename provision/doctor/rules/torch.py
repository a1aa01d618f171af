"""Rules on torch's own build and release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.doctor.rules.requirements import meets, requirements
from provision.environment.installed import name_of
from provision.environment.reading import list_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext

# These have nothing to do where torch has no CUDA.
_FOR_CUDA = ("xformers", "flash-attn", "causal-conv1d", "mamba-ssm", "auto-gptq", "exllamav2",
             "sgl-kernel", "flashinfer-python")  # fmt: skip


class WrongBuild:
    """The local version tag of torch is not that of the target's accelerator."""

    code: ClassVar[str] = "wrong-index-resolved"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch, target = context.env.torch, context.target
        built = context.env.accelerator
        if torch is None or target is None or built in ("cpu", target.accelerator):
            return  # a CPU build is CpuBuild's to tell
        yield Finding(
            self.code,
            Level.ERROR,
            f"torch is a build for {built}, the target is for {target.accelerator}",
            "torch came from an index that does not hold this target's build",
            f"`provision build {target.name}` takes it from the right one",
            (f"torch {torch.version} is installed",),
        )


class CpuBuild:
    """A GPU is there or meant, by the target or by other packages, and torch is a CPU build."""

    code: ClassVar[str] = "cpu-build-of-torch-installed"
    unless: ClassVar[tuple[str, ...]] = ("half-installed",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = context.env.torch
        if torch is None or context.env.accelerator != "cpu":
            return
        cards = [g for g in context.host.gpus if g.supported and g.vendor in ("intel", "nvidia")]
        meant = context.target.accelerator if context.target else None
        others = [] if meant else [*_for_cuda(context), *_replaced(context)]
        if meant == "cpu" or not (meant or cards or others):
            return
        why = "there is a GPU that it could use" if cards else "what is beside it is for CUDA"
        yield Finding(
            self.code,
            Level.ERROR if meant else Level.WARNING,
            "torch runs on the CPU only",
            f"torch is a CPU build, though {f'the target is for {meant}' if meant else why}",
            f"`provision build {context.target.name if context.target else 'auto'}`",
            (
                f"torch {torch.version} is a CPU build",
                *(f"here is {gpu.name}" for gpu in cards[:3]),
                *others[:3],
            ),
        )


def _for_cuda(context: DoctorContext) -> Iterator[str]:
    """Yield what shows that torch was to be a CUDA build."""
    for dist in filter(None, map(context.env.get, _FOR_CUDA)):
        yield f"{dist.name} {dist.version} is installed"


def _replaced(context: DoctorContext) -> Iterator[str]:
    """Yield what a CUDA build of torch left behind."""
    for nccl in context.env.like("nvidia-nccl-"):
        others = (several[0] for several in context.env.distributions.values())
        wishes = (line for dist in others if dist.name != "torch" for line in dist.requires)
        if not any(name_of(line) == nccl.name for line in wishes):
            yield f"{nccl.name} {nccl.version} is installed, and nothing requires it"
    for name in list_names(context.env.prefix / "conda-meta"):
        if re.match(r"pytorch-\d.*cuda", name):
            yield f"conda installed {name.removesuffix('.json')}"


class TooOldForTransformers:
    """transformers turns PyTorch off, or fails, where torch is older than it asks for."""

    code: ClassVar[str] = "torch-too-old-for-transformers"
    unless: ClassVar[tuple[str, ...]] = ("transformers-version-too-new-for-ipex-llm",)

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a log needs it not

        torch, transformers = context.env.get("torch"), context.env.get("transformers")
        if torch is None or transformers is None or not torch.parsed:
            return
        for wanted in requirements(transformers, context.env, extra="torch"):
            # An upper bound only says what was there when it was written.
            floors = [floor for floor in wanted.specifier if floor.operator.startswith(">")]
            wanted.specifier = SpecifierSet(",".join(map(str, floors)))
            if wanted.name == "torch" and not meets(torch, wanted):
                yield Finding(
                    self.code,
                    Level.ERROR,
                    f"transformers {transformers.version} does not work with torch {torch.version}",
                    f"It asks for torch{wanted.specifier}, in an extra that installers leave out",
                    f"uv pip install 'torch{wanted.specifier}' from the index of this build, or an "
                    "older transformers; or lock and build the target",
                    (
                        f"torch {torch.version} is installed",
                        f"transformers {transformers.version} requires torch{wanted.specifier}",
                    ),
                )
                return
