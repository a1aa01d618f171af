"""The environment rules: small classes, pure over the facts, causes before their symptoms."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from provision.core.findings import worst_first
from provision.doctor.rules import (
    binaries,
    bitsandbytes,
    companions,
    intel,
    machine,
    numpy2,
    python,
    requirements,
    torch,
    triton,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
    from provision.doctor.context import DoctorContext


class Rule(Protocol):
    """One thing that can be wrong; its docstring says what.

    Attributes:
        code: What it diagnoses.
        unless: Codes whose finding explains this one, so that one cause does not show as ten.
    """

    code: ClassVar[str]
    unless: ClassVar[tuple[str, ...]]

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        ...


# In this order: whatever may explain another rule's finding comes before it.
MACHINE: tuple[Rule, ...] = (
    machine.Selector(),
    machine.HiddenCard(),
    machine.NoDriver(),
    machine.HalfUpdated(),
    machine.NoPermission(),
    machine.NoRuntime(),
    machine.UnsupportedGpu(),
    machine.OldDriver(),
    machine.StaleCaches(),
)
RULES: tuple[Rule, ...] = (
    python.Interpreter(),
    python.HalfInstalled(),
    python.OtherPython(),
    python.Shadowed(),
    python.UserSite(),
    python.Startup(),
    python.NoWheels(),
    intel.IpexBesideIpexLlm(),
    intel.IpexInCuda(),
    intel.IpexOtherTorch(),
    torch.WrongBuild(),
    torch.CpuBuild(),
    companions.Companions(),
    companions.Extensions(),
    triton.Tritons(),
    intel.TransformersForIpexLlm(),
    torch.TooOldForTransformers(),
    numpy2.Numpy2(),
    requirements.Requirements(),
    bitsandbytes.NoGpuLibrary(),
    intel.OldAccelerate(),
    intel.Retired(),
    binaries.SameLibraryTwice(),
    binaries.NewMkl(),
    binaries.Setvars(),
    binaries.MissingLibraries(),
    *MACHINE,
)


def judge(context: DoctorContext, rules: tuple[Rule, ...] = RULES) -> list[Finding]:
    """Return what is wrong, worst first, causes before their symptoms."""
    found: list[Finding] = []
    for rule in rules:
        if not any(finding.bad and finding.code in rule.unless for finding in found):
            found += rule.check(context)
    return worst_first(found)
