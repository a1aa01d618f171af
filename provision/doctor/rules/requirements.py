"""Rules on the versions that installed packages require, and helpers to read requirements."""

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from provision.core.findings import Finding, Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.environment import Environment
from provision.environment.installed import InstalledDistribution, name_of

# The first release of each package that works with NumPy 2. Of torch see pytorch/pytorch#107302;
# of each other one this release was imported with NumPy 2.0.2, and the one before failed.
_NUMPY2 = {
    "torch": "2.3",
    "pandas": "2.2.2",
    "scipy": "1.13.0",
    "scikit-learn": "1.4.2",
    "scikit-image": "0.23.1",
    "matplotlib": "3.8.4",
    "numba": "0.60.0",
    "pyarrow": "16.0.0",
    "opencv-python": "4.10.0.84",
    "opencv-python-headless": "4.10.0.84",
    "onnxruntime": "1.19.0",
}
_NUMPY2_WINDOWS = {"torch": "2.4"}
# The beginnings of the names of libraries that torch's CUDA and XPU builds require.
_NVIDIA = ("nvidia-",)
_ONEAPI = (
    "intel-cmplr-",
    "intel-sycl-rt",
    "intel-opencl-rt",
    "intel-openmp",
    "intel-pti",
    "mkl",
    "onemkl-",
    "dpcpp-cpp-rt",
    "oneccl",
    "tcmlib",
    "umf",
)


def numpy2(context: DoctorContext) -> Findings:
    """A package was compiled for NumPy 1 and does not work with the installed NumPy 2."""
    env = context.env
    numpy = env.get("numpy")
    if numpy is None or not numpy.parsed or numpy.parsed.major < 2:
        return
    firsts = _NUMPY2 | (_NUMPY2_WINDOWS if env.windows else {})
    old = []
    for name, first in firsts.items():
        dist = env.get(name)
        if dist and dist.is_before(first):
            old.append(f"{dist}: NumPy 2 needs {first}")
    if old:
        yield Finding(
            code="numpy2-abi",
            level=Level.ERROR,
            symptom=f"Packages do not work with NumPy {numpy.version}",
            cause="They were built for NumPy 1",
            remedy=f"Run `uv pip install --python {env.prefix} --no-deps numpy==1.26.4`"
            " (Python 3.12 and older), or install newer releases of the named packages",
            evidence=(env.says(numpy), *old[:5]),
        )


@unless(
    "torch-companion-mismatch",
    "triton-missing-or-incompatible",
    "half-installed",
    "numpy2-abi",
)
def unmet_requirements(context: DoctorContext) -> Findings:
    """An installed package requires another version of a package than is installed."""
    env, target = context.env, context.target
    overrides = target.pip.overrides if target else ()
    overridden = {name_of(override.requirement) for override in overrides}
    broken: dict[str, dict[str, str]] = {}
    for dist in env.dists:
        for wanted in requirements(dist, env):
            present = env.get(wanted.name)
            if present is None or not present.parsed or wanted.name in overridden:
                continue
            if not meets(present, wanted):
                line = f"{dist} requires {wanted}; it is {present.version}"
                pin = f"'{wanted.name}{wanted.specifier}'"
                broken.setdefault(_case_of(wanted.name), {})[line] = pin
    for name, pins in broken.items():
        all_pins = " ".join(sorted(set(pins.values())))
        yield case(name, list(pins)[:5], pins=all_pins, env=env)


def _case_of(name: str) -> str:
    if name.startswith(_NVIDIA):
        return "cuda-library-replaced"
    return (
        "oneapi-library-replaced" if name.startswith(_ONEAPI) else "requirement-unmet"
    )


def pinned(dist: InstalledDistribution, name: str, *, extras: bool = True) -> set[str]:
    """Return the versions of ``name`` that a distribution pins exactly, in any of its extras."""
    versions = set()
    for line in dist.requires:
        wanted = requirement(line) if name in line.lower() else None
        if wanted is None or wanted.name != name:
            continue
        if extras or "extra" not in str(wanted.marker):
            versions |= {s.version for s in wanted.specifier if s.operator == "=="}
    return versions


def requirements(
    dist: InstalledDistribution, env: Environment, extra: str = ""
) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply to this platform and Python."""
    marker_values = {**env.markers, "extra": extra}
    for line in dist.requires:
        # Most lines are of extras, and slow to parse.
        if not extra and "extra ==" in line and " or " not in line:
            continue
        wanted = requirement(line)
        if wanted and (wanted.marker is None or wanted.marker.evaluate(marker_values)):
            yield wanted


def meets(dist: InstalledDistribution, wanted: Requirement) -> bool:
    """Whether the version of a distribution satisfies a requirement."""
    if dist.parsed is None:
        return False
    return wanted.specifier.contains(dist.parsed, prereleases=True)


def requirement(line: str) -> Requirement | None:
    """Return a requirement with its name normalised, None if it is invalid."""
    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return None
    wanted.name = str(canonicalize_name(wanted.name))
    return wanted
