"""Rule on triton, the compiler of torch.compile: each torch works with one release of it."""

from __future__ import annotations

from provision.core.findings import Level
from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.data import data
from provision.doctor.rules.requirements import meets, requirements

_REINSTALL = "`uv pip install --reinstall torch` from torch's own index"


def tritons(context: DoctorContext) -> Findings:
    """Triton is missing, of another release than torch pins, or installed by two packages."""
    table = data("packages")["triton"]
    installed = [dist for name in table["names"] if (dist := context.env.get(name))]
    names = [f"{dist.name} {dist.version} is installed" for dist in installed]
    if len(installed) > 1:
        both = " ".join(dist.name for dist in installed)
        remedy = f"Run `uv pip uninstall {both}`, then {_REINSTALL}"
        symptom = "Two packages install the module triton"
        yield case("triton", names, level=Level.WARNING, symptom=symptom, remedy=remedy)
        return
    torch, windows = context.env.get("torch"), context.env.get("triton-windows")
    goes_with = table["of_torch"].get(torch.minor) if torch else None
    if torch and windows and goes_with not in (None, windows.minor):
        evidence = [f"torch {torch.version} requires triton {goes_with}", *names]
        remedy = f"uv pip install 'triton-windows=={goes_with}.*'"
        symptom = "triton was built for another torch"
        yield case("triton", evidence, symptom=symptom, remedy=remedy)
        return
    for wanted in requirements(torch, context.env) if torch else ():
        found = context.env.get(wanted.name)
        if wanted.name in table["names"] and not (found and meets(found, wanted)):
            evidence = [f"torch requires {wanted}", *names]
            symptom = "The triton that torch requires is not installed"
            yield case("triton", evidence, symptom=symptom, remedy=_REINSTALL)
