"""Judgement of packages that are used together: of a lock, and of what was built from it.

No requirement tells of builds for other accelerators, or what a compiled package was built against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from provision.catalog.devices import Devices
from provision.core.errors import SpecError, ToolError
from provision.core.findings import Finding
from provision.doctor.context import DoctorContext
from provision.doctor.environment import (
    Environment,
    Torch,
    markers_of,
    read_environment,
)
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.environment.installed import InstalledDistribution
from provision.host.model import Host
from provision.lockfile.pip import Artifact, Lock
from provision.spec.model import Target

_COMPANIONS = ("torchvision", "torchaudio", "torchtext")
_NO_DEVICES = Devices({}, (), (), {}, {}, {})


@dataclass(frozen=True)
class LockedDistribution(InstalledDistribution):
    """A locked wheel as the distribution that it will be, with its ``Requires-Dist`` lines."""

    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    origin: str = ""  # the name of the wheel


def refuse_lock(
    target: Target, lock: Lock, requires: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse a lock whose packages do not work together, with the line to write into the spec."""
    if found := diagnose_lock(target, lock, requires):
        raise SpecError(
            f"the packages locked for {target.name} do not work together",
            evidence=_evidence(found),
            cause=found[0].cause,
            remedy=_remedy(found[0], target, lock),
        )


def refuse_built(prefix: Path, target: Target) -> None:
    """Refuse a built environment whose packages do not work together."""
    if found := diagnose_built(prefix, target):
        what = f"the packages that were built for {target.name} do not work together"
        remedy = f"correct envs/{target.name}.toml, then `provision lock {target.name}`"
        raise ToolError(
            what, evidence=_evidence(found), cause=found[0].cause, remedy=remedy
        )


def diagnose_lock(
    target: Target, lock: Lock, requires: Mapping[str, tuple[str, ...]]
) -> list[Finding]:
    """Return why locked wheels will not work together, with their ``Requires-Dist`` lines."""
    distributions = {
        artifact.name: (_distribution(artifact, requires.get(artifact.filename, ())),)
        for artifact in lock.artifacts
    }
    windows = lock.header["platform"].startswith("win")
    env = Environment(
        prefix=lock.folder,
        site=lock.folder,
        python=target.python,
        windows=windows,
        markers=markers_of(target.python, distributions, windows=windows),
        distributions=distributions,
        torch=_torch(lock),
        state="locked",
        source=f"envs/{target.name}.toml",
    )
    return _bad(env, target)


def diagnose_built(prefix: Path, target: Target) -> list[Finding]:
    """Return why the packages of a built environment do not work together, worst first."""
    return _bad(read_environment(prefix), target)


def _bad(env: Environment, target: Target) -> list[Finding]:
    # What works together does not depend on the machine that locks or builds: it is left out.
    context = DoctorContext(env, Host(target.platform, ""), _NO_DEVICES, target=target)
    return [finding for finding in apply_rules(context, PACKAGE_RULES) if finding.bad]


def _distribution(artifact: Artifact, requires: tuple[str, ...]) -> LockedDistribution:
    name, version, wheel = artifact.name, artifact.version, artifact.filename
    tag = "-".join(wheel.removesuffix(".whl").split("-")[-3:])
    return LockedDistribution(
        name, version, Path(), artifact.index, requires, (tag,), wheel
    )


def _torch(lock: Lock) -> Torch | None:
    """Return the build of the locked torch, from its local version and its CUDA libraries."""
    version = lock.versions.get("torch")
    if version is None:
        return None
    local = version.partition("+")[2]
    xpu = local if local == "xpu" else None
    if local.startswith("cu"):
        return Torch(version, local.removeprefix("cu"), xpu, None)
    # The default index has CUDA builds without a local version; they require these libraries.
    names = lock.versions
    if not local and any(name.startswith("nvidia-cuda-runtime") for name in names):
        return Torch(version, "unknown", xpu, None)
    return Torch(version, None, xpu, None)


def _evidence(found: Sequence[Finding]) -> str:
    return "\n".join(f"{f.code}: {f.symptom}: {', '.join(f.evidence)}" for f in found)


def _remedy(finding: Finding, target: Target, lock: Lock) -> str:
    """Return the remedy: for companions the line of the spec to write."""
    if finding.code != "torch-companion-mismatch":
        return finding.remedy
    spec = f"envs/{target.name}.toml"
    torch = lock.versions.get("torch", "").partition("+")[0]
    minor = ".".join(torch.split(".")[:2])
    return _one_index(target, lock, spec) or _one_release(minor, spec)


def _one_index(target: Target, lock: Lock, spec: str) -> str:
    """Return the line that assigns torch and its companions to one index; "" if they are."""
    index_of = target.pip.index_of
    locked = [name for name in ("torch", *_COMPANIONS) if name in lock.versions]
    vendors = [index for index in map(index_of, locked) if index != "default"]
    if len({*map(index_of, locked)}) < 2:
        return ""
    index = vendors[0]  # torch's own, unless torch comes from the default index
    names = ", ".join(
        f'"{name}"' for name in dict.fromkeys([*target.pip.index[index], *locked])
    )
    return f"assign them to one index: write `{index} = [{names}]` into [pip.index] of {spec}"


def _one_release(minor: str, spec: str) -> str:
    # torchvision's numbers are 15 above torch's, up to 0.29; see rules/companions.py.
    number = min(int(minor[2:]), 14) + 15 if minor[2:].isdigit() else 0
    vision = f": `torchvision==0.{number}.*`" if number else ""
    return f"require companions in {spec} that were built for torch {minor}{vision}"
