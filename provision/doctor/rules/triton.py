"""Rule on triton, the compiler of torch.compile: each torch works with one release of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.core.findings import Finding, Level
from provision.doctor.rules.requirements import meets, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.doctor.context import DoctorContext

_TRITONS = ("triton", "pytorch-triton", "pytorch-triton-xpu", "pytorch-triton-rocm", "triton-xpu",
            "triton-windows")  # fmt: skip
# The triton that each torch was built with (https://github.com/woct0rdho/triton-windows).
_TRITON_OF = {"2.4": "3.1", "2.5": "3.1", "2.6": "3.2", "2.7": "3.3", "2.8": "3.4", "2.9": "3.5"}

_REINSTALL = "`uv pip install --reinstall torch` from torch's own index"


class Tritons:
    """triton is missing, of another release than torch pins, or installed by two packages."""

    code: ClassVar[str] = "triton-missing-or-incompatible"
    unless: ClassVar[tuple[str, ...]] = ()

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        installed = [dist for name in _TRITONS if (dist := context.env.get(name))]
        names = [f"{dist.name} {dist.version} is installed" for dist in installed]
        if len(installed) > 1:
            both = " ".join(dist.name for dist in installed)
            remedy = f"Run `uv pip uninstall {both}`, then {_REINSTALL}"
            symptom = "Two packages install the module triton"
            yield self._finding(Level.WARNING, symptom, names, remedy)
            return
        torch, windows = context.env.get("torch"), context.env.get("triton-windows")
        goes_with = _TRITON_OF.get(torch.minor) if torch else None
        if torch and windows and goes_with not in (None, windows.minor):
            evidence = [f"torch {torch.version} requires triton {goes_with}", *names]
            remedy = f"uv pip install 'triton-windows=={goes_with}.*'"
            yield self._finding(Level.ERROR, "triton was built for another torch", evidence, remedy)
            return
        for wanted in requirements(torch, context.env) if torch else ():
            found = context.env.get(wanted.name)
            if wanted.name in _TRITONS and not (found and meets(found, wanted)):
                evidence = [f"torch requires {wanted}", *names]
                symptom = "The triton that torch requires is not installed"
                yield self._finding(Level.ERROR, symptom, evidence, _REINSTALL)

    def _finding(self, level: Level, symptom: str, evidence: list[str], remedy: str) -> Finding:
        return Finding(
            self.code,
            level,
            symptom,
            "Another package, or a second index, installed another triton than torch requires",
            remedy,
            tuple(evidence),
        )


RULES = (Tritons(),)
