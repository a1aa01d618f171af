"""Rule on triton, the compiler of torch.compile: each torch works with one release of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.core.findings import Level
from provision.doctor.rules.case import case
from provision.doctor.rules.requirements import meets, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
    from provision.doctor.context import DoctorContext

_TRITONS = ("triton", "pytorch-triton", "pytorch-triton-xpu", "pytorch-triton-rocm", "triton-xpu",
            "triton-windows")  # fmt: skip
# The triton that each torch was built with (https://github.com/woct0rdho/triton-windows).
_TRITON_OF = {"2.4": "3.1", "2.5": "3.1", "2.6": "3.2", "2.7": "3.3", "2.8": "3.4", "2.9": "3.5"}

_REINSTALL = "`uv pip install --reinstall torch` from torch's own index"


def tritons(context: DoctorContext) -> Iterator[Finding]:
    """Triton is missing, of another release than torch pins, or installed by two packages."""
    installed = [dist for name in _TRITONS if (dist := context.env.get(name))]
    names = [f"{dist.name} {dist.version} is installed" for dist in installed]
    if len(installed) > 1:
        both = " ".join(dist.name for dist in installed)
        remedy = f"Run `uv pip uninstall {both}`, then {_REINSTALL}"
        symptom = "Two packages install the module triton"
        yield case("triton", names, level=Level.WARNING, symptom=symptom, remedy=remedy)
        return
    torch, windows = context.env.get("torch"), context.env.get("triton-windows")
    goes_with = _TRITON_OF.get(torch.minor) if torch else None
    if torch and windows and goes_with not in (None, windows.minor):
        evidence = [f"torch {torch.version} requires triton {goes_with}", *names]
        remedy = f"uv pip install 'triton-windows=={goes_with}.*'"
        symptom = "triton was built for another torch"
        yield case("triton", evidence, symptom=symptom, remedy=remedy)
        return
    for wanted in requirements(torch, context.env) if torch else ():
        found = context.env.get(wanted.name)
        if wanted.name in _TRITONS and not (found and meets(found, wanted)):
            evidence = [f"torch requires {wanted}", *names]
            symptom = "The triton that torch requires is not installed"
            yield case("triton", evidence, symptom=symptom, remedy=_REINSTALL)


RULES = (tritons,)
