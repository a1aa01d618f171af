"""Rules on compiled packages that work with one release and one build of torch, triton too."""

import re
from urllib.parse import unquote

from provision.core.findings import Finding, Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.rules.files import reinstall
from provision.doctor.rules.requirements import meets, pinned, requirements
from provision.doctor.targets import build_command
from provision.environment.installed import InstalledDistribution as Dist

# The minor versions of torchvision and torchtext are 15 above torch's: 0.15 is for torch 2.0
# (https://github.com/pytorch/vision#installation, https://github.com/pytorch/text#installation).
_NUMBERED = ("torchvision", "torchtext")
_AHEAD = 15
_COMPANIONS = (*_NUMBERED, "torchaudio", "xformers")
# The first releases that call torch through its stable ABI alone:
# https://github.com/pytorch/audio/pull/4212, https://github.com/pytorch/vision/releases/tag/v0.29.1
_STABLE = {"torchaudio": "2.11", "torchvision": "0.29"}
# The torch in the name of a wheel that was built for one: +cu122torch2.2, +pt23cu121.
_BUILT_FOR = re.compile(r"torch(\d)\.(\d+)|[+.]pt(\d)(\d+)(?=cu|cpu|rocm|xpu|$)")
_ABI = re.compile(r"cxx11abi(TRUE|FALSE)")
# Local versions of published builds of torch; vendors' and source builds have other ones.
_BUILD = re.compile(r"cpu|cu\d+|xpu|rocm[\d.]+")
# Packages that bring the module triton.
TRITONS = (
    "triton",
    "pytorch-triton",
    "pytorch-triton-xpu",
    "pytorch-triton-rocm",
    "triton-xpu",
    "triton-windows",
)
# The triton that each torch was built with (https://github.com/woct0rdho/triton-windows).
TRITON_OF_TORCH = {
    "2.4": "3.1",
    "2.5": "3.1",
    "2.6": "3.2",
    "2.7": "3.3",
    "2.8": "3.4",
    "2.9": "3.5",
}
# Packages that work without their compiled part, only slower, and say so.
_OPTIONAL_KERNELS = {"torchao"}
_REINSTALL = "install the one that torch requires, at its version, with --no-deps from torch's own index"  # noqa: E501


def companions(context: DoctorContext) -> Findings:
    """torchvision, torchaudio or xformers was built for another torch."""
    env = context.env
    torch = env.get("torch")
    if torch is None or not torch.version or _is_own_build(torch):
        return
    named = [dist for name in _COMPANIONS if (dist := env.get(name))]
    wrong = []
    for dist in named:
        if not dist.version:
            continue
        built_for = (
            _goes_with(dist, torch)
            or _of_cuda(dist, torch, context)
            or _of_other_index(dist, torch)
        )
        if built_for:
            wrong.append(f"{dist} is for torch {built_for}")
    if not wrong:
        return
    together = "Install all of them in one command from one index"
    if env.source:
        together = f"Name releases in {env.source} that belong together, from one index"
    yield Finding(
        code="torch-companion-mismatch",
        level=Level.ERROR,
        symptom="A package that was built for one torch stands beside another",
        cause="Each release and each build of torch has companions of its own",
        remedy=f"{together}; {build_command(context.accelerator, env.platform)} does",
        evidence=(env.says(torch), *wrong),
    )


def _goes_with(dist: Dist, torch: Dist) -> str:
    """Return the torch that a companion requires, or "" if it is the installed one."""
    pins = pinned(dist, "torch", extras=False)
    if pins.isdisjoint((torch.version, torch.version.partition("+")[0])) and pins:
        return sorted(pins)[0]
    wanted = "" if pins or _takes_newer(dist, torch) else _release_of(dist)
    if wanted not in ("", torch.minor):
        return f"{wanted}.*"
    of_one_build = (
        dist.name != "xformers"
    )  # whose CUDA may have another minor version than torch's
    builds = _BUILD.fullmatch(dist.local), _BUILD.fullmatch(torch.local)
    if of_one_build and all(builds) and dist.local != torch.local:
        return f"{torch.version.partition('+')[0]}+{dist.local}"
    return ""


def _takes_newer(dist: Dist, torch: Dist) -> bool:
    """Whether a companion works with every torch from its own release on."""
    since = _STABLE.get(dist.name)
    stable = since and dist.parsed and not dist.is_before(since)
    return bool(stable and torch.parsed and not torch.is_before(_release_of(dist)))


def _of_cuda(dist: Dist, torch: Dist, context: DoctorContext) -> str:
    """Return the torch of a companion that is the default index's CUDA build for Linux, or ""."""
    if not _is_on_linux(context) or dist.local or torch.local not in ("cpu", "xpu"):
        return ""
    pins = pinned(dist, "torch", extras=False)  # a build from source has none
    return f"{sorted(pins)[0]} with CUDA" if _is_compiled(dist) and pins else ""


def _of_other_index(dist: Dist, torch: Dist) -> str:
    """Return the torch of a locked companion, as its index tells, or "" if it is the locked one."""
    differ = dist.index != torch.index and _is_compiled(dist)
    return f"of the index {dist.index!r}, not of {torch.index!r}" if differ else ""


def _is_compiled(dist: Dist) -> bool:
    """Whether a companion has a build per accelerator; torchaudio since 2.9 has one for all."""
    return dist.name in _NUMBERED or (
        dist.name == "torchaudio" and dist.is_before("2.9")
    )


def _release_of(dist: Dist) -> str:
    version = dist.parsed
    if (
        version
        and dist.name in _NUMBERED
        and version.major == 0
        and version.minor >= _AHEAD
    ):
        return f"2.{version.minor - _AHEAD}"
    return dist.minor if version and dist.name == "torchaudio" else ""


def _is_own_build(torch: Dist) -> bool:
    """Whether torch is a vendor's alpha, as for Jetson: its companions have other versions."""
    return bool(torch.parsed and torch.parsed.pre and torch.parsed.pre[0] == "a")


def _is_on_linux(context: DoctorContext) -> bool:
    markers = context.env.markers
    return (markers["sys_platform"], markers["platform_machine"]) == ("linux", "x86_64")


@unless("half-installed")
def extensions(context: DoctorContext) -> Findings:
    """A compiled package was built for another torch, which its requirements do not state."""
    torch, dists = context.env.get("torch"), context.env.dists
    if torch is None:
        return
    wrong = []
    for dist in dists:
        built_for = _other_torch(dist, torch) or _other_abi(dist, torch, context)
        if built_for:
            wrong.append(f"{dist} was built for torch {built_for}")
    if wrong:
        source = "--no-build-isolation --no-binary PACKAGE PACKAGE==VERSION"
        yield Finding(
            code="compiled-extension-abi-mismatch",
            level=Level.ERROR,
            symptom="A compiled extension was built for another torch",
            cause="torch was replaced later, or a wheel for another torch was chosen",
            remedy="Take the wheel for this torch, Python and CUDA, or build it from source"
            f" against this torch: `uv pip install --reinstall --no-deps {source}`",
            evidence=(context.env.says(torch), *wrong[:4]),
        )


@unless(
    "half-installed",
    "torch-companion-mismatch",
    "ipex-torch-version-mismatch",
    "compiled-extension-abi-mismatch",
)
def symbols(context: DoctorContext) -> Findings:
    """A library of a package needs symbols that torch does not define."""
    torch, foreign = context.env.get("torch"), context.foreign
    if torch and foreign:
        needs = [f"{d}: {lib} needs {name}" for d, (lib, name) in foreign.items()]
        dist = torch if torch in foreign else next(iter(foreign))
        optional = {dist.name for dist in foreign} <= _OPTIONAL_KERNELS
        name = "symbols-of-torch" if dist is torch else "symbols"
        how = "" if dist is torch else f"--no-build-isolation --no-binary {dist.name} "
        command, level = (
            reinstall(context, [dist], how),
            Level.NOTE if optional else None,
        )
        evidence = (f"{torch} is installed", *needs[:4])
        yield case(name, evidence, level=level, torch=torch, command=command)


def _wheel(dist: Dist) -> str:
    return f"+{dist.local} {unquote(dist.origin).rpartition('/')[2]}"


def _other_torch(dist: Dist, torch: Dist) -> str:
    """Return the torch in the name of a wheel, or "" if it is the installed one."""
    found = _BUILT_FOR.search(_wheel(dist))
    minor = ".".join(filter(None, found.groups())) if found else ""
    return minor if minor != torch.minor or _is_own_build(torch) else ""


def _other_abi(dist: Dist, torch: Dist, context: DoctorContext) -> str:
    """Return the C++ ABI in the name of a wheel, or "" if it is that of the installed torch."""
    abi = _ABI.search(_wheel(dist))
    published = _BUILD.fullmatch(torch.local) or any(
        "nvidia-" in line for line in torch.requires
    )
    if not (abi and published and torch.parsed and _is_on_linux(context)):
        return ""
    # The new ABI came to some builds in 2.6, to all in 2.7: https://pytorch.org/blog/pytorch2-6/
    first = (2, 6) if torch.local.startswith(("cu126", "xpu", "rocm")) else (2, 7)
    new = torch.parsed.release >= first
    return f"with cxx11abi{abi[1]}" if new != (abi[1] == "TRUE") else ""


@unless("wrong-interpreter-site-packages")
def tritons(context: DoctorContext) -> Findings:
    """Triton is missing, of another release than torch pins, or installed by two packages."""
    env = context.env
    torch = env.get("torch")
    tritons = [dist for name in TRITONS if (dist := env.get(name))]
    cause = (
        "Another package, or a second index, brings another triton than torch requires"
    )
    then = "as torch requires its own" if env.source else f"then {_REINSTALL}"
    symptom = remedy = ""
    evidence = [env.says(dist) for dist in tritons]
    foreign = _foreign_to_xpu(context, tritons)
    unmet = _unmet_triton(context, tritons)
    windows = env.get("triton-windows")
    pair = TRITON_OF_TORCH.get(torch.minor) if torch else None
    if foreign:
        symptom = "A triton for other GPUs overwrites the one of torch for Intel GPUs"
        build = build_command("xpu", env.platform)
        remedy = (
            f"{env.leave_out(*(dist.name for dist in foreign))}, {then}; or {build}"
        )
    elif len(tritons) > 1:
        symptom = "Two packages bring the module triton"
        remedy = f"{env.leave_out(*(dist.name for dist in tritons))}, {then}"
    elif torch and windows and pair not in (None, windows.minor):
        symptom = "triton was built for another torch"
        evidence.insert(0, f"{torch} requires triton {pair}")
        remedy = f"Install the one of this torch: `uv pip install --no-deps 'triton-windows=={pair}.*'`"
    elif unmet:
        symptom = "The triton that torch requires is not there"
        evidence.insert(0, f"torch requires {unmet}")
        remedy = _REINSTALL.capitalize()
    if symptom:
        yield Finding(
            code="triton-missing-or-incompatible",
            level=Level.ERROR,
            symptom=symptom,
            cause=cause,
            remedy=remedy,
            evidence=tuple(evidence),
        )


def _foreign_to_xpu(context: DoctorContext, tritons: list[Dist]) -> list[Dist]:
    """Return the tritons that are not for Intel GPUs, where torch is built for these."""
    # https://github.com/unslothai/unsloth/issues/10018: triton-windows overwrites triton-xpu.
    if context.env.torch is None or context.env.torch.accelerator != "xpu":
        return []
    return [dist for dist in tritons if "xpu" not in f"{dist.name}+{dist.local}"]


def _unmet_triton(context: DoctorContext, tritons: list[Dist]) -> str:
    """Return the requirement of torch on triton that nothing meets, or ""."""
    torch = context.env.get("torch")
    if torch is None:
        return ""
    for wanted in requirements(torch, context.env):
        met = [d for d in tritons if d.name == wanted.name and meets(d, wanted)]
        if wanted.name in TRITONS and not met:
            return str(wanted)
    return ""
