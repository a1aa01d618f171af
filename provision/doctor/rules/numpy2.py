"""Rule on packages that were compiled for NumPy 1 and are installed with NumPy 2."""

from __future__ import annotations

from provision.doctor.context import DoctorContext, Findings, case
from provision.doctor.data import data


def numpy2(context: DoctorContext) -> Findings:
    """A package was compiled for NumPy 1 and does not work with the installed NumPy 2."""
    numpy = context.env.get("numpy")
    if numpy is None or not numpy.parsed or numpy.parsed.major < 2:
        return
    tables = data("packages")
    first = tables["numpy2"] | (tables["numpy2-windows"] if context.env.windows else {})
    old = [
        dist for name in first if (dist := context.env.get(name)) and dist.is_before(first[name])
    ]
    if old:
        yield case(
            "numpy2",
            (
                f"numpy {numpy.version} is installed",
                *(f"{d.name} {d.version}: NumPy 2 needs {first[d.name]}" for d in old[:5]),
            ),
            first=old[0].name,
            numpy=numpy.version,
            names=", ".join(f"{d.name} {d.version}" for d in old),
        )
