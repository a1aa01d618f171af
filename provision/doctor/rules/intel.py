"""Rules on IPEX and ipex-llm, and on the packages that they work with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.doctor.rules.requirements import pinned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.environment.installed import InstalledDistribution

_IPEX = "intel-extension-for-pytorch"


class IpexBesideIpexLlm:
    """Another IPEX than the one that ipex-llm was built with is installed."""

    code: ClassVar[str] = "ipex-llm-with-separate-ipex"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        ipex = context.env.get(_IPEX)
        llm = context.env.get("ipex-llm") or context.env.get("bigdl-llm")
        core = context.env.like("bigdl-core-xe")
        if ipex is None or (llm is None and not core):
            return
        pins = pinned(llm, _IPEX) if llm else set()
        if llm and pins and ipex.version not in pins:
            wanted = " or ".join(sorted(pins))
            yield self._finding(f"{llm.name} {llm.version} requires {_IPEX} {wanted}", ipex)
        elif core and "xpu" not in ipex.local:
            yield self._finding(f"{core[0].name} {core[0].version} is for the XPU build", ipex)
        elif core and (minor := _built_with(core[0])) not in ("", ipex.minor):
            yield self._finding(f"{core[0].name} is for IPEX {minor}", ipex)

    def _finding(self, wanted: str, ipex: InstalledDistribution) -> Finding:
        return Finding(
            self.code,
            Level.ERROR,
            "IPEX was installed separately although ipex-llm installs its own",
            "The IPEX that is installed is not the one that ipex-llm was built with",
            "Create a new environment with ipex-llm[xpu] and no other IPEX: "
            "`provision build ipex-llm-linux`",
            (f"{ipex.name} {ipex.version} is installed", wanted),
        )


def _built_with(core: InstalledDistribution) -> str:
    """Return the minor version of IPEX that ipex-llm's kernels are for: bigdl-core-xe-21, 2.1."""
    found = re.search(r"-(\d)(\d+)$", core.name)
    return f"{found[1]}.{found[2]}" if found else ""


class IpexInCuda:
    """IPEX, which replaces operators for every device, is installed in a CUDA environment."""

    code: ClassVar[str] = "ipex-in-cuda-env"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        ipex, torch = context.env.get(_IPEX), context.env.torch
        meant = context.target is not None and context.target.accelerator == "cuda"
        if ipex is None or not (meant or (torch and torch.accelerator == "cuda")):
            return
        cards = [f"the machine has {gpu.name}" for gpu in context.gpus("nvidia")[:1]]
        yield Finding(
            self.code,
            Level.ERROR if cards or meant or "xpu" in ipex.local else Level.WARNING,
            "The Intel extension for PyTorch is installed in a CUDA environment",
            "IPEX replaces operators of torch for every device, and ends the program if torch has "
            "another version than it was built for",
            f"pip uninstall {_IPEX}; better, build a clean one: `provision build cuda-linux`",
            (
                f"{_IPEX} {ipex.version} is installed",
                f"torch {torch.version if torch else '?'} is a CUDA build",
                *cards,
            ),
        )


class IpexOtherTorch:
    """IPEX is installed with a torch of another minor version or build."""

    code: ClassVar[str] = "ipex-torch-version-mismatch"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        ipex, torch = context.env.get(_IPEX), context.env.torch
        if ipex is None or torch is None:
            return
        minor = ".".join(torch.version.split(".")[:2])
        why = ""
        if ipex.minor != minor:
            why = f"IPEX {ipex.minor} was built for torch {ipex.minor}; torch {minor} is installed"
        elif "xpu" in ipex.local and torch.version.endswith("+cpu"):
            why = f"IPEX {ipex.version} was built for Intel's torch; a CPU build is installed"
        if why:
            yield Finding(
                self.code,
                Level.ERROR,
                "Importing intel_extension_for_pytorch ends the program",
                why,
                f"Install torch {ipex.minor} from Intel's index, or run `uv pip uninstall {_IPEX}`",
                (f"{_IPEX} {ipex.version} is installed", f"torch {torch.version} is installed"),
            )


class OldAccelerate:
    """Accelerate before 1.6, whose offload fails on XPU; a note, as few programs use it."""

    code: ClassVar[str] = "accelerate-offload-keyerror"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        accelerate = context.env.get("accelerate")
        # ipex-llm pins an old Accelerate and does not use its offload.
        if accelerate is None or context.accelerator != "xpu" or context.env.get("ipex-llm"):
            return
        if accelerate.is_before("1.6"):
            yield Finding(
                self.code,
                Level.NOTE,
                "Offloaded models fail with KeyError 'xpu:0'",
                "Accelerate before 1.6 has no entry for this device in its map of tied parameters",
                "uv pip install 'accelerate>=1.6'",
                (f"accelerate {accelerate.version} is installed",),
            )


class Retired:
    """IPEX or ipex-llm is installed, which are archived and no longer maintained."""

    code: ClassVar[str] = "index-retired"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        names = (_IPEX, "ipex-llm", "bigdl-llm")
        archived = [d for name in names if (d := context.env.get(name))]
        if archived:
            yield Finding(
                self.code,
                Level.NOTE,
                "The environment holds packages that are no longer maintained",
                "IPEX was archived in March 2026 and ipex-llm in January 2026, both with known "
                "security issues; their index answers 403",
                "Keep the wheels (`provision bundle TARGET -o DIR`), or move to stock PyTorch XPU",
                tuple(f"{d.name} {d.version} is installed" for d in archived),
            )


RULES = (
    IpexBesideIpexLlm(),
    IpexInCuda(),
    IpexOtherTorch(),
    OldAccelerate(),
    Retired(),
)
