"""Rules on the versions that installed packages require, and helpers to read requirements."""

from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.core.findings import Finding, Level
from provision.doctor.context import DoctorContext, Findings, case, unless
from provision.doctor.environment import Environment
from provision.environment.installed import InstalledDistribution, name_of
from provision.spec.model import parse_requirement

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
    """Torch was compiled for NumPy 1 and does not work with the installed NumPy 2."""
    env = context.env
    numpy, torch = env.get("numpy"), env.get("torch")
    # https://github.com/pytorch/pytorch/issues/107302
    # Files are of all systems.
    first = "2.4" if env.windows and not env.source else "2.3"
    if not (numpy and numpy.parsed and torch):
        return
    if numpy.parsed.major >= 2 and torch.is_before(first):
        install = f"Run `uv pip install {env.option} --no-deps numpy==1.26.4`"
        yield Finding(
            code="numpy2-abi",
            level=Level.ERROR,
            symptom=f"torch does not work with NumPy {numpy.version}",
            cause=f"It was built for NumPy 1; NumPy 2 needs torch {first}",
            remedy=f"{env.require('numpy==1.26.4') or install}"
            " (Python 3.12 and older), or install a newer torch",
            evidence=(env.says(numpy), env.says(torch)),
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
    if name.startswith(_ONEAPI):
        return "oneapi-library-replaced"
    return "requirement-unmet"


def pinned(dist: InstalledDistribution, name: str, *, extras: bool = True) -> set[str]:
    """Return the versions of ``name`` that a distribution pins exactly, in any of its extras."""
    versions = set()
    for line in dist.requires:
        wanted = requirement(line) if name in line.lower() else None
        if wanted is None or wanted.name != name:
            continue
        if not extras and "extra" in str(wanted.marker):
            continue
        for bound in wanted.specifier:
            if bound.operator == "==":
                versions.add(bound.version)
    return versions


def requirements(
    dist: InstalledDistribution, env: Environment
) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply to this platform and Python."""
    for line in dist.requires:
        # Most lines are of extras, and slow to parse.
        if "extra ==" in line and " or " not in line:
            continue
        wanted = requirement(line)
        if wanted is None:
            continue
        if wanted.marker is None or wanted.marker.evaluate(
            {**env.markers, "extra": ""}
        ):
            yield wanted


def meets(dist: InstalledDistribution, wanted: Requirement) -> bool:
    """Whether the version of a distribution satisfies a requirement."""
    if dist.parsed is None:
        return False
    return wanted.specifier.contains(dist.parsed, prereleases=True)


def requirement(line: str) -> Requirement | None:
    """Return a requirement with its name normalised, None if it is invalid."""
    try:
        wanted = parse_requirement(line)
    except ValueError:
        return None
    wanted.name = str(canonicalize_name(wanted.name))
    return wanted
