"""Rules on IPEX and ipex-llm, and on the packages that they work with."""

import re

from provision.core.findings import Finding, Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.rules.requirements import pinned
from provision.doctor.targets import build_command
from provision.environment.installed import InstalledDistribution as Dist

IPEX = "intel-extension-for-pytorch"


def ipex_beside_ipex_llm(context: DoctorContext) -> Findings:
    """Another IPEX is installed beside ipex-llm than the one that ipex-llm was built with."""
    env = context.env
    ipex = env.get(IPEX)
    llm = env.get("ipex-llm") or env.get("bigdl-llm")
    cores = [dist for dist in env.dists if dist.name.startswith("bigdl-core-xe")]
    if ipex is None:
        return
    reason = _not_of_llm(ipex, llm) if llm else ""
    if not reason and cores:
        reason = _not_of_core(ipex, cores[0])
    if reason:
        build = build_command("ipex-llm", env.platform)
        remove = env.leave_out(IPEX)
        if env.built_for:  # without ipex-llm's own, too
            remove = f"`provision remove {env.built_for} {IPEX}`"
        elif not env.source:
            remove += ", and install its own from your copies of the wheels"
        yield Finding(
            code="ipex-llm-with-separate-ipex",
            level=Level.ERROR,
            symptom="A second IPEX is used beside ipex-llm, which has its own",
            cause="Its operators, such as torch_ipex::mul_add, replace or lack those that"
            " ipex-llm was compiled for",
            remedy=f"{remove}: ipex-llm[xpu] requires the IPEX that it was"
            f" built with. A clean environment of both: {build}",
            evidence=(env.says(ipex), reason),
        )


def _not_of_llm(ipex: Dist, llm: Dist) -> str:
    """Return which IPEX ipex-llm pins, or "" where it is this one or none."""
    pins = pinned(llm, IPEX)
    if not pins or ipex.version in pins:
        return ""
    return f"{llm} requires {IPEX} {' or '.join(sorted(pins))}"


def _not_of_core(ipex: Dist, core: Dist) -> str:
    """Return which IPEX the kernels of ipex-llm are for, or "" where it is this one."""
    if "xpu" not in ipex.local:
        return f"{core} is for the XPU build of IPEX"
    built = re.search(r"-(\d)(\d+)$", core.name)  # bigdl-core-xe-21 is for IPEX 2.1
    if built is None or f"{built[1]}.{built[2]}" == ipex.minor:
        return ""
    return f"{core.name} is for IPEX {built[1]}.{built[2]}"


def ipex_in_cuda(context: DoctorContext) -> Findings:
    """IPEX, which replaces operators for every device, is in an environment for NVIDIA's GPUs."""
    env, target = context.env, context.target
    ipex = env.get(IPEX)
    if ipex is None:
        return
    evidence = [env.says(ipex)]
    is_cuda = env.torch is not None and env.torch.accelerator == "cuda"
    if is_cuda and not _is_for_cpus(ipex, env.get("torch")):
        evidence.append(f"{env.torch} is a CUDA build")
    if target and target.accelerator == "cuda":
        evidence.append(f"the target {target.name} is for CUDA")
    vendors = {gpu.vendor for gpu in context.host.gpus if gpu.supported}
    if target is None and "nvidia" in vendors and "intel" not in vendors:
        names = [gpu.name for gpu in context.gpus("nvidia")]
        evidence.append(f"the machine has {names[0]}")
    if len(evidence) > 1:
        build = build_command("cuda", env.platform)
        yield Finding(
            code="ipex-in-cuda-env",
            level=Level.ERROR,
            symptom="The Intel extension for PyTorch is in an environment for NVIDIA's GPUs",
            cause="IPEX replaces operators of torch for every device, and ends the program"
            " if torch has another version than it was built for",
            remedy=f"{env.leave_out(IPEX)}; a clean environment for NVIDIA: {build}",
            evidence=tuple(evidence),
        )


def _is_for_cpus(ipex: Dist, torch: Dist | None) -> bool:
    """Whether IPEX for CPUs has its torch, of which the default index has CUDA builds only."""
    if torch is None or torch.local or "xpu" in ipex.local:
        return False
    return ipex.minor == torch.minor


@unless("ipex-llm-with-separate-ipex")
def ipex_other_torch(context: DoctorContext) -> Findings:
    """IPEX is installed beside a torch of another minor version or build."""
    env = context.env
    ipex, torch = env.get(IPEX), env.torch
    if ipex is None or torch is None or not torch.version:
        return
    cause = ""
    minor = ".".join(torch.version.split(".")[:2])
    if ipex.minor != minor:
        cause = f"IPEX {ipex.minor} was built for torch {ipex.minor}, not for {minor}"
    elif "xpu" in ipex.local and torch.version.endswith("+cpu"):
        cause = f"IPEX {ipex.version} was built for Intel's torch, not for a CPU build"
    if cause:
        use = "xpu" if "xpu" in ipex.local or torch.accelerator != "cpu" else "cpu"
        yield Finding(
            code="ipex-torch-version-mismatch",
            level=Level.ERROR,
            symptom="Importing intel_extension_for_pytorch ends the program",
            cause=f"{cause}; IPEX ended with 2.8, and each of its releases works with the"
            " torch of its own number only",
            remedy=f"{env.leave_out(IPEX)}: stock PyTorch supports XPU,"
            f" {build_command(use, env.platform)}. A program that needs IPEX needs torch"
            f" {ipex.minor} beside it, from your own copies of the wheels, because IPEX's"
            " index answers 403",
            evidence=(env.says(ipex), f"{torch} is {env.state}"),
        )


def cuda_packages_with_xpu(context: DoctorContext) -> Findings:
    """Packages that have kernels for CUDA only are installed beside an XPU build of torch."""
    env = context.env
    torch = env.torch
    if torch is None or torch.accelerator != "xpu":
        return
    for_cuda = env.present(CUDA_ONLY)
    for dist in env.dists:
        if dist.name.startswith("nvidia-cuda-runtime"):
            for_cuda.append(dist)
    if for_cuda:
        names = [dist.name for dist in for_cuda]
        yield Finding(
            code="torch-companion-mismatch",
            level=Level.ERROR,
            symptom="Packages for CUDA are used beside a torch for Intel GPUs",
            cause="They have kernels for NVIDIA's GPUs only, and what installs them"
            " replaces torch by a CUDA build",
            remedy=f"{env.leave_out(*names)}; a clean environment for Intel GPUs:"
            f" {build_command('xpu', env.platform)}",
            evidence=(f"{torch} is {env.state}", *map(env.says, for_cuda[:4])),
        )


# Packages that are of use with a CUDA build of torch only.
CUDA_ONLY = (
    "xformers",
    "flash-attn",
    "causal-conv1d",
    "mamba-ssm",
    "auto-gptq",
    "exllamav2",
    "sgl-kernel",
    "flashinfer-python",
)


def old_accelerate(context: DoctorContext) -> Findings:
    """Accelerate before 1.6, whose offload fails on XPU; a note, as few programs use it."""
    env = context.env
    accelerate = env.get("accelerate")
    if accelerate is None or context.accelerator != "xpu":
        return
    # ipex-llm pins an old Accelerate and does not use its offload.
    if accelerate.is_before("1.6") and not env.get("ipex-llm"):
        yield case("old-accelerate", (env.says(accelerate),), env=env)


def retired(context: DoctorContext) -> Findings:
    """IPEX or ipex-llm, which are archived and no longer maintained."""
    env = context.env
    archived = env.present((IPEX, "ipex-llm", "bigdl-llm"))
    if archived:
        yield case("retired", map(env.says, archived))
