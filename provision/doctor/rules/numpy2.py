"""Rule on packages that were compiled for NumPy 1 and are installed with NumPy 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.doctor.rules.case import case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.findings import Finding
    from provision.doctor.context import DoctorContext

# The first release of each package that works with NumPy 2. Of torch see pytorch/pytorch#107302;
# of each other one this release was imported with NumPy 2.0.2, and the import of the one before
# failed.
_FIRST = {
    "torch": "2.3",
    "bottleneck": "1.4.0",
    "faiss-cpu": "1.9.0",
    "h5py": "3.11.0",
    "matplotlib": "3.8.4",
    "ml-dtypes": "0.4.0",
    "numba": "0.60.0",
    "numexpr": "2.10.0",
    "onnxruntime": "1.19.0",
    "opencv-python": "4.10.0.84",
    "opencv-python-headless": "4.10.0.84",
    "pandas": "2.2.2",
    "pyarrow": "16.0.0",
    "pycocotools": "2.0.8",
    "pywavelets": "1.6.0",
    "scikit-image": "0.23.1",
    "scikit-learn": "1.4.2",
    "scipy": "1.13.0",
    "shapely": "2.0.4",
    "soxr": "0.4.0",
    "statsmodels": "0.14.2",
    "thinc": "8.3.0",
}
_WINDOWS = {"torch": "2.4"}


def numpy2(context: DoctorContext) -> Iterator[Finding]:
    """A package was compiled for NumPy 1 and does not work with the installed NumPy 2."""
    numpy = context.env.get("numpy")
    if numpy is None or not numpy.parsed or numpy.parsed.major < 2:
        return
    first = _FIRST | (_WINDOWS if context.env.windows else {})
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


RULES = (numpy2,)
