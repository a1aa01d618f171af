"""Rules on torch's build and on the packages that belong to one release of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.distributions import Distribution
    from provision.doctor.facts import Facts

_TRITONS = ("triton", "pytorch-triton", "pytorch-triton-xpu", "pytorch-triton-rocm", "triton-xpu",
            "triton-windows")  # fmt: skip
# torchvision's minor runs ahead of torch's: 0.15 goes with 2.0, 0.24 with 2.9
# (https://github.com/pytorch/vision#installation).
_VISION_AHEAD = 15


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
    """A GPU is there, or the target is for one, and torch is a CPU build."""

    code: ClassVar[str] = "cpu-build-of-torch-installed"
    unless: ClassVar[tuple[str, ...]] = ("half-installed",)

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = facts.env.torch
        if torch is None or facts.env.accelerator != "cpu":
            return
        cards = [g for g in facts.host.gpus if g.supported and g.vendor in ("intel", "nvidia")]
        meant = facts.target.accelerator if facts.target else None
        if meant == "cpu" or (meant is None and not cards):
            return
        yield Finding(
            self.code,
            Level.ERROR if meant else Level.WARNING,
            "torch runs on the CPU only",
            "torch is a CPU build, though "
            + (f"the target is for {meant}" if meant else "there is a GPU that it could use"),
            f"`provision build {facts.target.name if facts.target else 'auto'}`",
            (f"torch {torch.version} is a CPU build", *(f"here is {g.name}" for g in cards[:3])),
        )


class Companions:
    """torchvision and torchaudio belong to one release and one build of torch."""

    code: ClassVar[str] = "torch-companion-mismatch"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        torch = facts.env.get("torch")
        if torch is None:
            return
        companions = filter(None, map(facts.env.get, ("torchvision", "torchaudio")))
        wrong = [
            f"{dist.name} {dist.version} is for torch {wanted}"
            for dist in companions
            if (wanted := _goes_with(dist, torch))
        ]
        if wrong:
            yield Finding(
                self.code,
                Level.ERROR,
                "torchvision or torchaudio does not belong to this torch",
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
    if dist.local and torch.local and dist.local != torch.local:
        return f"{torch.version.partition('+')[0]}+{dist.local}"
    return ""


def _release_of(dist: Distribution) -> str:
    version = dist.parsed
    if version is None:
        return ""
    if dist.name == "torchaudio":
        return dist.minor
    if version.major == 0 and version.minor >= _VISION_AHEAD:
        return f"2.{version.minor - _VISION_AHEAD}"
    return ""


def _same(pin: str, version: str) -> bool:
    return pin == version or pin == version.partition("+")[0]


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
