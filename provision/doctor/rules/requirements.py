"""Rule on the requirements of installed packages, and helpers to read requirements."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from provision.core.findings import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement

    from provision.doctor.context import DoctorContext
    from provision.doctor.environment import Environment
    from provision.environment.installed import InstalledDistribution


class _Kind(NamedTuple):
    """The finding for an unmet requirement on a package whose name starts with one of ``names``."""

    names: tuple[str, ...]
    code: str
    level: Level
    symptom: str
    cause: str
    remedy: str


_KINDS = (
    _Kind(
        ("nvidia-",),
        "cuda-library-mismatch",
        Level.ERROR,
        "An NVIDIA library has another version than torch requires",
        "Another package replaced the library after torch was installed",
        "uv pip install --reinstall torch",
    ),
    _Kind(
        ("intel-cmplr-", "intel-sycl-rt", "intel-opencl-rt", "intel-openmp", "intel-pti", "mkl",
         "onemkl-", "dpcpp-cpp-rt", "oneccl", "tcmlib", "umf"),
        "oneapi-version-conflict",
        Level.WARNING,
        "A oneAPI library has another version than is required",
        "Another package, such as IPEX, installed the library of another oneAPI release",
        "Install the quoted version, or the libraries of one release: `provision build TARGET`",
    ),
    _Kind(
        ("",),
        "dependency-conflict",
        Level.WARNING,
        "Installed packages have requirements that are not met",
        "A package was installed later without regard to the requirements of the others",
        "Run `uv pip check` and install the quoted versions, or lock and build the target",
    ),
)  # fmt: skip


class Requirements:
    """An installed package requires another version of a package than is installed."""

    code: ClassVar[str] = "dependency-conflict"
    unless: ClassVar[tuple[str, ...]] = (
        "torch-companion-mismatch",
        "triton-missing-or-incompatible",
        "half-installed",
        "numpy2-abi",
    )

    def check(self, context: DoctorContext) -> Iterator[Finding]:
        """Yield what is wrong."""
        overridden = set(_overridden(context))
        broken: dict[_Kind, list[str]] = {}
        for dist in (several[0] for several in context.env.distributions.values()):
            for wanted in requirements(dist, context.env):
                found = context.env.get(wanted.name)
                if found is None or wanted.name in overridden or not found.parsed:
                    continue
                if not meets(found, wanted):
                    kind = next(k for k in _KINDS if wanted.name.startswith(k.names))
                    broken.setdefault(kind, []).append(
                        f"{dist.name} {dist.version} requires {wanted}; it is {found.version}"
                    )
        for kind in (kind for kind in _KINDS if kind in broken):
            evidence = tuple(broken[kind][:5])
            yield Finding(kind.code, kind.level, kind.symptom, kind.cause, kind.remedy, evidence)


def _overridden(context: DoctorContext) -> Iterator[str]:
    overrides = context.target.pip.overrides if context.target else ()
    for override in overrides:
        if parsed := _requirement(override.requirement):
            yield parsed.name


def pinned(dist: InstalledDistribution, name: str, *, extras: bool = True) -> set[str]:
    """Return the versions of ``name`` that a distribution pins exactly, in any of its extras."""
    parsed = (_requirement(line) for line in dist.requires if name in line.lower())
    return {
        specifier.version
        for wanted in parsed
        if wanted and wanted.name == name and (extras or "extra" not in str(wanted.marker))
        for specifier in wanted.specifier
        if specifier.operator == "=="
    }


def requirements(
    dist: InstalledDistribution, env: Environment, extra: str = ""
) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that apply to this platform and Python."""
    marker_values = {**env.markers, "extra": extra}
    for line in dist.requires:
        wanted = _requirement(line)
        if wanted and (wanted.marker is None or wanted.marker.evaluate(marker_values)):
            yield wanted


def meets(dist: InstalledDistribution, wanted: Requirement) -> bool:
    """Whether the version of a distribution satisfies a requirement."""
    return dist.parsed is not None and wanted.specifier.contains(dist.parsed, prereleases=True)


def _requirement(line: str) -> Requirement | None:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    try:
        wanted = Requirement(line)
    except InvalidRequirement:
        return None
    wanted.name = str(canonicalize_name(wanted.name))
    return wanted


RULES = (Requirements(),)
