"""Rules on IPEX and ipex-llm, and on the packages that they work with."""

import re

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.rules.requirements import pinned

_IPEX = "intel-extension-for-pytorch"


def ipex_beside_ipex_llm(context: DoctorContext) -> Findings:
    """Another IPEX than the one that ipex-llm was built with is installed."""
    ipex = context.env.get(_IPEX)
    llm = context.env.get("ipex-llm") or context.env.get("bigdl-llm")
    core = [d for d in context.env.dists if d.name.startswith("bigdl-core-xe")]
    if ipex is None or (llm is None and not core):
        return
    why, pins = "", pinned(llm, _IPEX) if llm else set()
    if llm and pins and ipex.version not in pins:
        why = f"{llm} requires {_IPEX} {' or '.join(sorted(pins))}"
    elif core and "xpu" not in ipex.local:
        why = f"{core[0]} is for the XPU build"
    elif core and (
        built := re.search(r"-(\d)(\d+)$", core[0].name)
    ):  # bigdl-core-xe-21: 2.1
        minor = f"{built[1]}.{built[2]}"
        why = f"{core[0].name} is for IPEX {minor}" if minor != ipex.minor else ""
    if why:
        yield case("ipex-beside-ipex-llm", (f"{ipex} is installed", why))


def ipex_in_cuda(context: DoctorContext) -> Findings:
    """IPEX, which replaces operators for every device, is installed in a CUDA environment."""
    ipex, torch = context.env.get(_IPEX), context.env.torch
    meant = context.target is not None and context.target.accelerator == "cuda"
    if ipex is None or not (meant or (torch and torch.accelerator == "cuda")):
        return
    cards = [f"the machine has {gpu.name}" for gpu in context.gpus("nvidia")[:1]]
    cuda = f"torch {torch.version if torch else '?'} is a CUDA build"
    level = Level.ERROR if cards or meant or "xpu" in ipex.local else Level.WARNING
    yield case("ipex-in-cuda", (f"{ipex} is installed", cuda, *cards), level=level)


def ipex_other_torch(context: DoctorContext) -> Findings:
    """IPEX is installed with a torch of another minor version or build."""
    ipex, torch = context.env.get(_IPEX), context.env.torch
    if ipex is None or torch is None:
        return
    why, minor = "", ".".join(torch.version.split(".")[:2])
    if ipex.minor != minor:
        why = f"IPEX {ipex.minor} was built for torch {ipex.minor}; torch {minor} is installed"
    elif "xpu" in ipex.local and torch.version.endswith("+cpu"):
        why = (
            f"IPEX {ipex.version} was built for Intel's torch; a CPU build is installed"
        )
    if why:
        evidence = (f"{ipex} is installed", f"torch {torch.version} is installed")
        yield case("ipex-other-torch", evidence, why=why, minor=ipex.minor)


def old_accelerate(context: DoctorContext) -> Findings:
    """Accelerate before 1.6, whose offload fails on XPU; a note, as few programs use it."""
    accelerate = context.env.get("accelerate")
    # ipex-llm pins an old Accelerate and does not use its offload.
    if (
        accelerate is None
        or context.accelerator != "xpu"
        or context.env.get("ipex-llm")
    ):
        return
    if accelerate.is_before("1.6"):
        yield case("old-accelerate", (f"accelerate {accelerate.version} is installed",))


def retired(context: DoctorContext) -> Findings:
    """IPEX or ipex-llm is installed, which are archived and no longer maintained."""
    if archived := [
        *filter(None, map(context.env.get, (_IPEX, "ipex-llm", "bigdl-llm")))
    ]:
        yield case("retired", (f"{d} is installed" for d in archived))
