"""For what a lock is refused: packages that the spec forbids or that do not fit; as for what was built.

No requirement tells of builds for other accelerators, or what a compiled package was built against.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from provision.catalog.devices import Devices
from provision.core.errors import SpecError, ToolError
from provision.core.findings import Finding, Level
from provision.core.wheel_name import split_variant
from provision.doctor.context import DoctorContext
from provision.doctor.environment import (
    Environment,
    Torch,
    markers_of,
    read_environment,
)
from provision.doctor.rules import PACKAGE_RULES, apply_rules
from provision.doctor.rules.companions import COMPANIONS, TRITONS, VISION_AHEAD
from provision.environment.installed import InstalledDistribution, parse_version
from provision.host.model import Host
from provision.lockfile.pip import Artifact, Lock
from provision.lockfile.requirers import shortest_chain
from provision.spec.model import Target
from provision.spec.places import Places, read_places

# The beginning of a remedy that leaves packages out: its line, with the names.
_EXCLUDE = re.compile(r"(Write `exclude = \[)([^\]]*)(\]` into [^`]*`[^`]*`)")
_NO_DEVICES = Devices({}, (), (), {}, {}, {})


@dataclass(frozen=True)
class LockedDistribution(InstalledDistribution):
    """A locked wheel as the distribution that it will be, with its ``Requires-Dist`` lines."""

    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    origin: str = ""  # the name of the wheel


def refuse_lock(
    target: Target, lock: Lock, requires: Mapping[str, tuple[str, ...]], root: Path
) -> None:
    """Refuse a lock whose packages do not work together, or of which the spec forbids one.

    The error has the lines to write into the spec, and what requires what is in the way, by the files
    of the project in ``root``.
    """
    if not diagnose_lock(target, lock, requires):
        return
    brought = _brought(lock, read_places(target, root))
    findings = diagnose_lock(target, lock, requires, brought)
    remedies = [_remedy(finding, target, lock) for finding in findings]
    raise SpecError(
        f"the packages locked for {target.name} do not work together",
        evidence=_evidence(findings),
        cause=findings[0].cause,
        remedy="\n".join(dict.fromkeys(_with_one_exclude(remedies))),
    )


def _with_one_exclude(remedies: Sequence[str]) -> list[str]:
    """Return remedies with the lines of all that leave packages out as one line."""
    lines = []
    others = []
    names = dict[str, None]()
    for remedy in remedies:
        line = _EXCLUDE.match(remedy)
        if line:
            lines.append(line)
            names |= dict.fromkeys(line[2].split(", "))
        else:
            others.append(remedy)
    if len(lines) < 2:
        return list(remedies)
    return [f"{lines[0][1]}{', '.join(names)}{lines[0][3]}", *others]


def _brought(lock: Lock, places: Places) -> dict[str, str]:
    """Return what requires each package, up to the line of a file, as the end of a sentence."""
    via = {artifact.name: artifact.via for artifact in lock.artifacts}
    brought = {}
    for name in via:
        chain = shortest_chain(name, via)
        users = "".join(f", for {user}" for user in chain[1:])
        brought[name] = f"{users}; {places.of(chain[-1])} requires {chain[-1]}"
    return brought


def refuse_built(prefix: Path, target: Target) -> None:
    """Refuse a built environment whose packages do not work together."""
    findings = diagnose_built(prefix, target)
    if findings:
        raise ToolError(
            f"the packages that were built for {target.name} do not work together",
            evidence=_evidence(findings),
            cause=findings[0].cause,
            remedy="\n".join(dict.fromkeys(finding.remedy for finding in findings)),
        )


def diagnose_lock(
    target: Target,
    lock: Lock,
    requires: Mapping[str, tuple[str, ...]],
    brought: Mapping[str, str] = MappingProxyType({}),
) -> list[Finding]:
    """Return why locked wheels will not do, with their ``Requires-Dist`` lines.

    ``brought`` is what requires each, which the evidence tells.
    """
    distributions = {}
    for artifact in lock.artifacts:
        lines = requires.get(artifact.filename, ())
        distributions[artifact.name] = (_distribution(artifact, lines),)
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
        built_for=target.name,
        excluded=target.pip.exclude,
        brought=brought,
    )
    findings = _forbidden(env, target)
    forbidden = {entry.name for entry in target.pip.forbid}
    has_forbidden_triton = any(d.name in forbidden for d in env.present(TRITONS))
    for finding in _bad(env, target):
        is_of_triton = finding.code == "triton-missing-or-incompatible"
        if not (has_forbidden_triton and is_of_triton):  # which is the same error
            findings.append(finding)
    return findings


def _forbidden(env: Environment, target: Target) -> list[Finding]:
    findings = []
    for entry in target.pip.forbid:
        for dist in env.present([entry.name]):
            finding = Finding(
                code="forbidden-package",
                level=Level.ERROR,
                symptom=f"{dist} must not be in this environment",
                cause=entry.reason,
                remedy=env.leave_out(dist.name),
                evidence=(env.says(dist),),
            )
            findings.append(finding)
    return findings


def diagnose_built(prefix: Path, target: Target) -> list[Finding]:
    """Return why the packages of a built environment do not work together, worst first."""
    env = replace(
        read_environment(prefix), built_for=target.name, excluded=target.pip.exclude
    )
    return _bad(env, target)


def _bad(env: Environment, target: Target) -> list[Finding]:
    # What works together does not depend on the machine that locks or builds: it is left out.
    context = DoctorContext(env, Host(target.platform, ""), _NO_DEVICES, target=target)
    findings = apply_rules(context, PACKAGE_RULES)
    return [finding for finding in findings if finding.bad]


def _distribution(artifact: Artifact, requires: tuple[str, ...]) -> LockedDistribution:
    plain, _ = split_variant(artifact.filename)
    parts = plain.removesuffix(".whl").split("-")
    return LockedDistribution(
        artifact.name,
        artifact.version,
        folder=Path(),
        index=artifact.index,
        requires=requires,
        tags=("-".join(parts[-3:]),),
        origin=artifact.filename,
    )


def _torch(lock: Lock) -> Torch | None:
    """Return the build of the locked torch, from its local version and its CUDA libraries."""
    version = lock.versions.get("torch")
    if version is None:
        return None
    local = version.partition("+")[2]
    cuda = local.removeprefix("cu") if local.startswith("cu") else None
    # The default index has CUDA builds without a local version; they require these libraries.
    if not local and "nvidia-cuda-runtime" in " ".join(lock.versions):
        cuda = "unknown"
    return Torch(version, cuda)


def _evidence(findings: Sequence[Finding]) -> str:
    lines = []
    for finding in findings:
        evidence = ", ".join(finding.evidence)
        lines.append(f"{finding.code}: {finding.symptom}: {evidence}")
    return "\n".join(lines)


def _remedy(finding: Finding, target: Target, lock: Lock) -> str:
    """Return the remedy: for companions the line of the spec to write."""
    if finding.code != "torch-companion-mismatch" or _EXCLUDE.match(finding.remedy):
        return finding.remedy
    spec = f"envs/{target.name}.toml"
    return _one_index(target, lock, spec) or _one_release(lock, spec)


def _one_index(target: Target, lock: Lock, spec: str) -> str:
    """Return the line that assigns torch and its companions to one index; "" if they are."""
    indexes = {}
    for name in ("torch", *COMPANIONS):
        if name in lock.versions:
            indexes[name] = target.pip.index_of(name)
    if len(set(indexes.values())) < 2:
        return ""
    # torch's own, unless torch comes from the default index
    index = next(index for index in indexes.values() if index != "default")
    assigned = dict.fromkeys([*target.pip.index[index], *indexes])
    names = ", ".join(f'"{name}"' for name in assigned)
    return f"assign them to one index: write `{index} = [{names}]` into [pip.index] of {spec}"


def _one_release(lock: Lock, spec: str) -> str:
    torch = parse_version(lock.versions["torch"])
    if torch is None:
        return f"require companions in {spec} that were built for its torch"
    # From 0.29 on a torchvision takes newer torches, too.
    vision = f"torchvision==0.{min(torch.minor, 14) + VISION_AHEAD}.*"
    minor = f"{torch.major}.{torch.minor}"
    add = f"`provision add {lock.folder.name} '{vision}' --only-here`"
    return f"{add}: companions that were built for torch {minor}"
