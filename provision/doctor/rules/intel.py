"""Rules on IPEX and ipex-llm, and on what they go together with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.doctor.rules.requirements import pinned
from provision.environment.installed import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext
    from provision.environment.installed import InstalledDistribution

_IPEX = "intel-extension-for-pytorch"


class IpexBesideIpexLlm:
    """ipex-llm brings the IPEX that it was built with; another one beside it breaks both."""

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
            yield self._finding(f"{llm.name} {llm.version} goes with {_IPEX} {wanted}", ipex)
        elif core and "xpu" not in ipex.local:
            yield self._finding(f"{core[0].name} {core[0].version} is for the XPU build", ipex)
        elif core and (minor := _built_with(core[0])) not in ("", ipex.minor):
            yield self._finding(f"{core[0].name} is for IPEX {minor}", ipex)

    def _finding(self, wanted: str, ipex: InstalledDistribution) -> Finding:
        return Finding(
            self.code,
            Level.ERROR,
            "IPEX was installed beside ipex-llm, which brings its own",
            "The IPEX that is installed is not the one that ipex-llm was built with",
            "Make a fresh environment with ipex-llm[xpu] and nothing beside it: "
            "`provision build ipex-llm-linux`",
            (f"{ipex.name} {ipex.version} is installed", wanted),
        )


def _built_with(core: InstalledDistribution) -> str:
    """Return the minor of IPEX that ipex-llm's kernels are for: bigdl-core-xe-21 is for 2.1."""
    found = re.search(r"-(\d)(\d+)$", core.name)
    return f"{found[1]}.{found[2]}" if found else ""


class IpexInCuda:
    """IPEX replaces operators and devices for everything, so it has no place beside CUDA."""

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
            "The Intel extension is installed in a CUDA environment",
            "IPEX registers its operators over those of torch for every device, and ends the "
            "program where its version does not fit",
            f"pip uninstall {_IPEX}; better, build a clean one: `provision build cuda-linux`",
            (
                f"{_IPEX} {ipex.version} is installed",
                f"torch {torch.version if torch else '?'} is a CUDA build",
                *cards,
            ),
        )


class IpexOtherTorch:
    """IPEX works with the torch of its own minor version only."""

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
            why = f"IPEX {ipex.minor} was built for torch {ipex.minor}, and torch {minor} is here"
        elif "xpu" in ipex.local and torch.version.endswith("+cpu"):
            why = f"IPEX {ipex.version} was built for Intel's own torch, and the CPU build is here"
        if why:
            yield Finding(
                self.code,
                Level.ERROR,
                "Importing intel_extension_for_pytorch ends the program",
                why,
                f"uv pip install 'torch=={ipex.minor}.*' from Intel's index, "
                f"or pip uninstall {_IPEX}",
                (f"{_IPEX} {ipex.version} is installed", f"torch {torch.version} is installed"),
            )


class TransformersForIpexLlm:
    """ipex-llm patches the model code of certain versions of transformers."""

    code: ClassVar[str] = "transformers-version-too-new-for-ipex-llm"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        llm, transformers = context.env.get("ipex-llm"), context.env.get("transformers")
        if llm is None or transformers is None or transformers.parsed is None:
            return
        pins = [v for pin in pinned(llm, "transformers") if (v := parse_version(pin))]
        if pins and transformers.parsed > max(pins):
            yield Finding(
                self.code,
                Level.ERROR,
                "transformers is newer than ipex-llm's patches",
                f"ipex-llm {llm.version} patches transformers up to {max(pins)}",
                f"uv pip install 'transformers=={min(pins)}'",
                (f"transformers {transformers.version} is installed",
                 f"ipex-llm {llm.version} pins {', '.join(sorted(map(str, pins)))}"),
            )  # fmt: skip


class OldAccelerate:
    """Accelerate before 1.6 fails in offload on XPU; that only matters to who offloads."""

    code: ClassVar[str] = "accelerate-offload-keyerror"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        accelerate = context.env.get("accelerate")
        # ipex-llm pins an old one, and offloads by its own means.
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
    """IPEX and ipex-llm are archived: their index may vanish, and nobody mends them."""

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
