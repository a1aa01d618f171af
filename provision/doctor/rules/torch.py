"""Rules on torch's build and on the packages that belong to one release of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.distributions import Distribution
    from provision.doctor.facts import Facts

_TRITONS = ("triton", "pytorch-triton", "pytorch-triton-xpu", "pytorch-triton-rocm", "triton-xpu",
            "triton-windows")  # fmt: skip
# The minors of torchvision and torchtext run ahead of torch's: 0.15 goes with 2.0, 0.24 with 2.9
# (https://github.com/pytorch/vision#installation, https://github.com/pytorch/text#installation).
_NUMBERED = ("torchvision", "torchtext")
_AHEAD = 15
_COMPANIONS = (*_NUMBERED, "torchaudio", "xformers")
# These have nothing to do where torch has no CUDA.
_FOR_CUDA = ("xformers", "flash-attn", "causal-conv1d", "mamba-ssm", "auto-gptq", "exllamav2",
             "sgl-kernel", "flashinfer-python")  # fmt: skip
# How wheels are named that are built for one torch: +cu122torch2.2, +pt23cu121.
_BUILT_FOR = re.compile(r"torch(\d)\.(\d+)|[+.]pt(\d)(\d+)(?=cu|cpu|rocm|xpu|$)")


class WrongBuild:
    """The local version tag of torch is not that of the target's accelerator."""

    code: ClassVar[str] = "wrong-index-resolved"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch, target = facts.env.torch, facts.target
        built = facts.env.accelerator
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

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = facts.env.torch
        if torch is None or facts.env.accelerator != "cpu":
            return
        cards = [g for g in facts.host.gpus if g.supported and g.vendor in ("intel", "nvidia")]
        meant = facts.target.accelerator if facts.target else None
        others = [] if meant else list(_for_cuda(facts))
        if meant == "cpu" or not (meant or cards or others):
            return
        why = "there is a GPU that it could use" if cards else "what is beside it is for CUDA"
        yield Finding(
            self.code,
            Level.ERROR if meant else Level.WARNING,
            "torch runs on the CPU only",
            f"torch is a CPU build, though {f'the target is for {meant}' if meant else why}",
            f"`provision build {facts.target.name if facts.target else 'auto'}`",
            (
                f"torch {torch.version} is a CPU build",
                *(f"here is {gpu.name}" for gpu in cards[:3]),
                *(f"{dist.name} {dist.version} is installed" for dist in others[:3]),
            ),
        )


def _for_cuda(facts: Facts) -> Iterator[Distribution]:
    """Yield packages that show that torch was, or was to be, a CUDA build."""
    yield from filter(None, map(facts.env.get, _FOR_CUDA))
    # NCCL comes with a CUDA torch; left behind, it shows that torch was replaced.
    for nccl in facts.env.like("nvidia-nccl-"):
        everyone = (several[0] for several in facts.env.distributions.values())
        asked = (r.name for dist in everyone for r in requirements(dist, facts.env))
        if nccl.name not in asked:
            yield nccl


class Companions:
    """torchvision and the like belong to one release and one build of torch."""

    code: ClassVar[str] = "torch-companion-mismatch"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = facts.env.get("torch")
        if torch is None or _is_own_build(torch):
            return
        companions = filter(None, map(facts.env.get, _COMPANIONS))
        wrong = [
            f"{dist.name} {dist.version} is for torch {wanted}"
            for dist in companions
            if (wanted := _goes_with(dist, torch))
        ]
        if wrong:
            yield Finding(
                self.code,
                Level.ERROR,
                "A package that was built for one torch is installed beside another",
                "They were installed at different times or from different indexes",
                "Install all of them in one command from one index, or `provision build TARGET`",
                (f"torch {torch.version} is installed", *wrong),
            )


def _goes_with(dist: Distribution, torch: Distribution) -> str:
    """Return the torch that a companion goes with, or "" if it is the one that is here."""
    pins = pinned(dist, "torch", extras=False)
    if pins and not any(_same(pin, torch.version) for pin in pins):
        return sorted(pins)[0]
    if not pins and (wanted := _release_of(dist)) and wanted != torch.minor:
        return f"{wanted}.*"
    of_one_build = dist.name != "xformers"  # whose CUDA may be of another minor than torch's
    if of_one_build and dist.local and torch.local and dist.local != torch.local:
        return f"{torch.version.partition('+')[0]}+{dist.local}"
    return ""


def _release_of(dist: Distribution) -> str:
    version = dist.parsed
    if version is None:
        return ""
    if dist.name == "torchaudio":
        return dist.minor
    if dist.name in _NUMBERED and version.major == 0 and version.minor >= _AHEAD:
        return f"2.{version.minor - _AHEAD}"
    return ""


def _is_own_build(torch: Distribution) -> bool:
    """Whether it is an alpha that a vendor built with companions of its own, as for Jetson."""
    return bool(torch.parsed and torch.parsed.pre and torch.parsed.pre[0] == "a")


def _same(pin: str, version: str) -> bool:
    return pin == version or pin == version.partition("+")[0]


class Extensions:
    """Compiled packages that do not require one torch, but were built for one."""

    code: ClassVar[str] = "compiled-extension-abi-mismatch"
    unless: ClassVar[tuple[str, ...]] = ("half-installed",)

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = facts.env.get("torch")
        if torch is None:
            return
        wrong = [
            f"{dist.name} {dist.version} was built for torch {built}"
            for dist in (several[0] for several in facts.env.distributions.values())
            if (built := _built_for(dist)) and built != torch.minor
        ]
        if wrong:
            yield Finding(
                self.code,
                Level.ERROR,
                "A compiled extension was built for another torch",
                "torch was changed after it, or the wheel for another torch was taken",
                "Install the wheel for this torch, or build it here: "
                "`uv pip install --reinstall --no-build-isolation --no-binary NAME NAME`",
                (f"torch {torch.version} is installed", *wrong[:4]),
            )


def _built_for(dist: Distribution) -> str:
    """Return the minor version of torch that the name of a wheel tells, or ""."""
    wheel = unquote(dist.origin).rpartition("/")[2]
    found = _BUILT_FOR.search(f"+{dist.local}") or _BUILT_FOR.search(wheel)
    return ".".join(filter(None, found.groups())) if found else ""


class Tritons:
    """torch pins one triton, and all packages that bring one write into the same folder."""

    code: ClassVar[str] = "triton-missing-or-incompatible"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        here = [dist for name in _TRITONS if (dist := facts.env.get(name))]
        names = [f"{dist.name} {dist.version} is installed" for dist in here]
        if len(here) > 1:
            uninstall = " ".join(dist.name for dist in here)
            yield self._finding("Two packages bring the module triton", names, uninstall)
            return
        torch = facts.env.get("torch")
        for wanted in requirements(torch, facts.env) if torch else ():
            found = facts.env.get(wanted.name)
            if wanted.name in _TRITONS and not (found and meets(found, wanted)):
                evidence = [f"torch requires {wanted}", *names]
                yield self._finding("torch does not find its triton", evidence, "")

    def _finding(self, symptom: str, evidence: list[str], uninstall: str) -> Finding:
        first = f"uv pip uninstall {uninstall}, then " if uninstall else ""
        return Finding(
            self.code,
            Level.ERROR,
            symptom,
            "Another package or a second index brought another triton than torch pins",
            f"{first}`uv pip install --reinstall torch` from torch's own index",
            tuple(evidence),
        )


class TooOldForTransformers:
    """transformers turns PyTorch off, or fails, where torch is older than it asks for."""

    code: ClassVar[str] = "torch-too-old-for-transformers"
    unless: ClassVar[tuple[str, ...]] = ("transformers-version-too-new-for-ipex-llm",)

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch, transformers = facts.env.get("torch"), facts.env.get("transformers")
        if torch is None or transformers is None or not torch.parsed:
            return
        for wanted in requirements(transformers, facts.env, extra="torch"):
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
