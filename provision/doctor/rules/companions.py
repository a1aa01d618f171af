"""Rules on compiled packages that work with one release and one build of torch, triton too."""

import re
from urllib.parse import unquote

from provision.core.findings import Finding, Level
from provision.doctor.context import DoctorContext, Findings, unless
from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.doctor.targets import build_command
from provision.environment.installed import InstalledDistribution as Dist

COMPANIONS = ("torchvision", "torchaudio", "xformers")
# The minor versions of torchvision are 15 above torch's: 0.15 is for torch 2.0
# (https://github.com/pytorch/vision#installation).
VISION_AHEAD = 15
# The first releases that call torch through its stable ABI alone:
# https://github.com/pytorch/audio/pull/4212, https://github.com/pytorch/vision/releases/tag/v0.29.1
_STABLE = {"torchaudio": "2.11", "torchvision": "0.29"}
# The torch in the name of a wheel that was built for one: +cu122torch2.2, +pt23cu121.
_BUILT_FOR = re.compile(r"torch(\d)\.(\d+)|[+.]pt(\d)(\d+)(?=cu|cpu|rocm|xpu|$)")
_ABI = re.compile(r"cxx11abi(TRUE|FALSE)")
# Local versions of published builds of torch; vendors' and source builds have other ones.
BUILD = re.compile(r"cpu|cu\d+|xpu|rocm[\d.]+")
# Packages that install the module triton.
TRITONS = (
    "triton",
    "pytorch-triton",
    "pytorch-triton-xpu",
    "pytorch-triton-rocm",
    "triton-xpu",
    "triton-windows",
)
_SHIMS = ("triton 3.7.2+xpu", "triton 3.8.0+xpu")
# The triton that each torch was built with (https://github.com/woct0rdho/triton-windows).
_TRITON_OF_TORCH = {
    "2.4": "3.1",
    "2.5": "3.1",
    "2.6": "3.2",
    "2.7": "3.3",
    "2.8": "3.4",
    "2.9": "3.5",
}


def companions(context: DoctorContext) -> Findings:
    """torchvision, torchaudio or xformers was built for another torch."""
    env = context.env
    torch = env.get("torch")
    if torch is None or not torch.version or _is_own_build(torch):
        return
    wrong = []
    for dist in env.present(COMPANIONS):
        if not dist.version:
            continue
        release = _other_release(dist, torch)
        built_for = release or _other_build(dist, torch, context)
        if built_for:
            wrong.append(f"{dist} is for torch {built_for}")
    if wrong:
        together = "Install all of them in one command from one index"
        if env.built_for:
            spec = f"envs/{env.built_for}.toml"
            together = f"Name releases in {spec} that belong together"
        elif env.source:
            together = (
                f"Name releases in {env.source} that belong together, from one index"
            )
        yield Finding(
            code="torch-companion-mismatch",
            level=Level.ERROR,
            symptom="A package that was built for one torch is used with another",
            cause="Each release and each build of torch has companions of its own",
            remedy=f"{together}; {build_command(context.accelerator, env.platform)} does",
            evidence=(env.says(torch), *wrong),
        )


def _other_release(dist: Dist, torch: Dist) -> str:
    """Return the release of torch that a companion is for, or "" if it is the installed one."""
    pins = pinned(dist, "torch", extras=False)
    if pins:
        same = pins.intersection((torch.version, torch.version.partition("+")[0]))
        return "" if same else sorted(pins)[0]
    release = _release_of(dist)
    if release in ("", torch.minor):
        return ""
    since = _STABLE.get(dist.name)
    if since and not dist.is_before(since) and not torch.is_before(release):
        return ""
    return f"{release}.*"


def _release_of(dist: Dist) -> str:
    """Return the release of torch that the number of a companion tells, or ""."""
    version = dist.parsed
    if version and dist.name == "torchaudio":
        return dist.minor
    if version and dist.name == "torchvision" and version.minor >= VISION_AHEAD:
        return f"2.{version.minor - VISION_AHEAD}"
    return ""


def _other_build(dist: Dist, torch: Dist, context: DoctorContext) -> str:
    """Return the build of torch that a companion is for, or "" if it is the installed one."""
    builds = BUILD.fullmatch(dist.local) and BUILD.fullmatch(torch.local)
    # The CUDA of xformers may have another minor version than torch's.
    if builds and dist.local != torch.local and dist.name != "xformers":
        return f"{torch.version.partition('+')[0]}+{dist.local}"
    # torchaudio has one build for all accelerators since 2.9.
    if dist.name == "xformers" or (
        dist.name == "torchaudio" and not dist.is_before("2.9")
    ):
        return ""
    pins = pinned(dist, "torch", extras=False)  # a build from source has none
    of_cpu = torch.local in ("cpu", "xpu") and context.env.platform == "linux-64"
    if of_cpu and pins and not dist.local:  # the default index has CUDA for Linux
        return f"{sorted(pins)[0]} with CUDA"
    if dist.index != torch.index and not _is_stable_beside(dist, torch):
        return f"of the index {dist.index!r}, not of {torch.index!r}"
    return ""


def _is_stable_beside(dist: Dist, torch: Dist) -> bool:
    """Whether a companion of the stable ABI has the major CUDA version of torch.

    Its number does not tell with which torch the default index built it: torchvision 0.29.2 is of
    CUDA 13.2, as torch 2.15 is (its ``version.py``).
    """
    since = _STABLE.get(dist.name)
    if not since or dist.is_before(since):
        return False
    major = _cuda_major(dist.index)
    return major != "" and major == _cuda_major(torch.index)


def _cuda_major(index: str) -> str:
    """Return the major CUDA version of an index such as cu128, or ""."""
    build = re.fullmatch(r"cu(\d+)\d", index)
    return build[1] if build else ""


def _is_own_build(torch: Dist) -> bool:
    """Whether torch is a vendor's alpha, as for Jetson: its companions have other versions."""
    return bool(torch.parsed and torch.parsed.pre and torch.parsed.pre[0] == "a")


@unless("half-installed")
def extensions(context: DoctorContext) -> Findings:
    """A compiled package was built for another torch, which its requirements do not state."""
    torch = context.env.get("torch")
    if torch is None or not torch.parsed:
        return
    wrong = []
    for dist in context.env.dists:
        wheel = f"+{dist.local} {unquote(dist.origin).rpartition('/')[2]}"
        built_for = _other_torch(wheel, torch) or _other_abi(wheel, torch, context)
        if built_for:
            wrong.append(f"{dist} was built for torch {built_for}")
    if wrong:
        names = [line.partition(" ")[0] for line in wrong]
        options = f"{context.env.option} --reinstall --no-deps --no-build-isolation"
        remedy = (
            "Take the wheel for this torch, Python and CUDA, or build it from source"
            " against this torch:"
            f" `uv pip install {options} --no-binary PACKAGE PACKAGE==VERSION`"
        )
        if context.env.built_for or context.env.source:
            remedy = (
                f"Require a release that was built for torch {torch.minor}. To do without:"
                f" {context.env.leave_out(*names)}"
            )
        yield Finding(
            code="compiled-extension-abi-mismatch",
            level=Level.ERROR,
            symptom="A compiled extension was built for another torch",
            cause="torch was replaced later, or a wheel for another torch was chosen",
            remedy=remedy,
            evidence=(context.env.says(torch), *wrong[:4]),
        )


def _other_torch(wheel: str, torch: Dist) -> str:
    """Return the torch in the name of a wheel, or "" if it is the installed one."""
    named = _BUILT_FOR.search(wheel)
    if named is None:
        return ""
    minor = ".".join(filter(None, named.groups()))
    return minor if minor != torch.minor or _is_own_build(torch) else ""


def _other_abi(wheel: str, torch: Dist, context: DoctorContext) -> str:
    """Return the C++ ABI in the name of a wheel, or "" if it is that of the installed torch."""
    abi = _ABI.search(wheel)
    requires_cuda = "nvidia-" in " ".join(torch.requires)
    published = requires_cuda or BUILD.fullmatch(torch.local)
    if not (abi and published and context.env.platform == "linux-64"):
        return ""
    # The new ABI came to some builds in 2.6, to all in 2.7: https://pytorch.org/blog/pytorch2-6/
    since = "2.7"
    if torch.local.startswith(("cu126", "xpu", "rocm")):
        since = "2.6"
    right = "FALSE" if torch.is_before(since) else "TRUE"
    if abi[1] == right:
        return ""
    return f"with cxx11abi{abi[1]}"


@unless("wrong-interpreter-site-packages")
def tritons(context: DoctorContext) -> Findings:
    """Triton is missing, of another release than torch pins, or installed by two packages."""
    env = context.env
    torch = env.get("torch")
    # Intel's shim of that name holds no module: it requires triton-xpu, for vLLM.
    tritons = [d for d in env.present(TRITONS) if str(d) not in _SHIMS]
    evidence = [env.says(dist) for dist in tritons]
    xpu = env.torch is not None and env.torch.accelerator == "xpu"
    foreign = [dist for dist in tritons if xpu and "xpu" not in str(dist)]
    wanted = _unmet(torch, tritons, context) if torch else ""
    if foreign or len(tritons) > 1:
        # https://github.com/unslothai/unsloth/issues/10018: triton-windows overwrites triton-xpu.
        symptom = "Two packages contain the module triton"
        if foreign:
            symptom = (
                "A triton for other GPUs overwrites the one of torch for Intel GPUs"
            )
        remedy = _one_triton(foreign or tritons, torch, context)
    elif wanted:
        symptom = "The triton that torch requires is not there"
        remedy = (
            f"Install the quoted one with --no-deps, from torch's own index: {wanted}"
        )
        remedy = env.require(wanted.partition(";")[0].strip()) or remedy
        evidence.insert(0, f"{torch} requires {wanted}")
    else:
        return
    yield Finding(
        code="triton-missing-or-incompatible",
        level=Level.ERROR,
        symptom=symptom,
        cause="Another package, or a second index, leads to another triton than torch requires",
        remedy=remedy,
        evidence=tuple(evidence),
    )


def _one_triton(tritons: list[Dist], torch: Dist | None, context: DoctorContext) -> str:
    """Return how to get rid of what is in the way of torch's own triton."""
    env, names = context.env, [dist.name for dist in tritons]
    build = build_command(context.accelerator, env.platform)
    if env.built_for:  # a build from another lock has torch's own, undamaged
        own = set[str]()
        if torch:
            own.update(wanted.name for wanted in requirements(torch, env))
        others = [name for name in names if name not in own] or names
        return f"{env.leave_out(*others)}; or {build}"
    return (
        f"{env.leave_out(*names)}, and install the one that torch requires; or {build}"
    )


def _unmet(torch: Dist, tritons: list[Dist], context: DoctorContext) -> str:
    """Return the triton that torch requires and nothing meets, or ""."""
    windows = context.env.get("triton-windows")
    pair = _TRITON_OF_TORCH.get(torch.minor)
    if windows and pair not in (None, windows.minor):
        return f"triton-windows=={pair}.*"
    without = context.target.pip.exclude if context.target else ()
    for wanted in requirements(torch, context.env):
        if wanted.name not in TRITONS or wanted.name in without:
            continue
        present = [dist for dist in tritons if dist.name == wanted.name]
        if not any(meets(dist, wanted) for dist in present):
            return str(wanted)
    return ""
