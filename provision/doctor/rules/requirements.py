"""What the installed packages require of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from provision.finding import Finding, Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement

    from provision.doctor.distributions import Distribution
    from provision.doctor.environment import Environment
    from provision.doctor.facts import Facts


class Requirements:
    """An installed package asks for another version of a package than is installed."""

    code: ClassVar[str] = "dependency-conflict"
    unless: ClassVar[tuple[str, ...]] = (
        "torch-companion-mismatch",
        "triton-missing-or-incompatible",
        "half-installed",
        "numpy2-abi",
    )

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Yield what is wrong."""
        spared = set(_overridden(facts))
        broken: list[str] = []
        nvidia: list[str] = []
        for dist in (several[0] for several in facts.env.distributions.values()):
            for wanted in requirements(dist, facts.env):
                found = facts.env.get(wanted.name)
                if found is None or wanted.name in spared or not found.parsed:
                    continue
                if not meets(found, wanted):
                    line = f"{dist.name} {dist.version} requires {wanted}, {found.version} is here"
                    (nvidia if wanted.name.startswith("nvidia-") else broken).append(line)
        if nvidia:
            yield Finding(
                "cuda-library-mismatch",
                Level.ERROR,
                "An NVIDIA library is not of the version that torch was built with",
                "Another package replaced it after torch was installed",
                "uv pip install --reinstall torch",
                tuple(nvidia[:5]),
            )
        if broken:
            yield Finding(
                self.code,
                Level.WARNING,
                "Installed packages contradict each other",
                "Something was installed later without regard to what was there",
                "`uv pip check`, then install the quoted versions; or lock and build the target",
                tuple(broken[:5]),
            )


def _overridden(facts: Facts) -> Iterator[str]:
    overrides = facts.target.pip.overrides if facts.target else ()
    for override in overrides:
        if parsed := _requirement(override.requirement):
            yield parsed.name


def pinned(dist: Distribution, name: str, *, extras: bool = True) -> set[str]:
    """Return the versions of ``name`` that a distribution pins exactly, in any of its extras."""
    parsed = (_requirement(line) for line in dist.requires if name in line.lower())
    return {
        specifier.version
        for wanted in parsed
        if wanted and wanted.name == name and (extras or "extra" not in str(wanted.marker))
        for specifier in wanted.specifier
        if specifier.operator == "=="
    }


def requirements(dist: Distribution, env: Environment, extra: str = "") -> Iterator[Requirement]:
    """Yield what a distribution requires on this platform and Python, with an extra or without."""
    marker_values = {
        "extra": extra,
        "python_version": env.python or "3.11",
        "python_full_version": f"{env.python or '3.11'}.0",
        "sys_platform": "win32" if env.windows else "linux",
        "platform_system": "Windows" if env.windows else "Linux",
        "os_name": "nt" if env.windows else "posix",
        "platform_machine": "AMD64" if env.windows else "x86_64",
    }
    for line in dist.requires:
        wanted = _requirement(line)
        if wanted and (wanted.marker is None or wanted.marker.evaluate(marker_values)):
            yield wanted


def meets(dist: Distribution, wanted: Requirement) -> bool:
    """Whether a distribution is of a version that is required."""
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
