"""Requirements that are no wheel of an index: built first, then served to the resolver as wheels.

A built wheel is served by an index ``wheelhouse`` of its own on loopback, which comes before all
others. So the resolver takes its name from there and nowhere else, and everything after it
knows wheels only.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from provision.catalog.simple_index import embedded_metadata
from provision.catalog.snapshot import Wheel
from provision.core.errors import SpecError, ToolError
from provision.core.hashing import sha256_file
from provision.lockfile.pip import WHEELHOUSE
from provision.lockfile.tags import best_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provision.artifacts.sources import SourceBuilder
    from provision.core.process import Completed
    from provision.resolver.uv import Pins, UvResolver
    from provision.spec.model import Target

_ROUNDS = 8  # a build names what it lacks: static requirements, then dynamic ones
_LACKING = re.compile(r"No solution found when resolving: (.*)")
_SOURCE_ONLY = re.compile(r"Wheels are required for `([^`]+)`")
_BUILDING = threading.Lock()  # targets are locked in parallel, and mostly need the same wheels
_MARKERS = {
    "linux-64": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
                 "platform_machine": "x86_64"},
    "win-64": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt",
               "platform_machine": "AMD64"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuiltWheel:
    """A wheel that was built from source.

    Attributes:
        path: In the wheelhouse.
        source: See :mod:`provision.artifacts.sources`.
        requires: The requirements of its build, pinned with hashes.
    """

    path: Path
    source: str
    requires: tuple[str, ...]

    @property
    def name(self) -> str:
        """The distribution, normalised."""
        return str(parse_wheel_filename(self.path.name)[0])

    @property
    def version(self) -> str:
        """Its version."""
        return str(parse_wheel_filename(self.path.name)[1])

    def served(self) -> Wheel:
        """Return it as an entry of an index; its URL is never asked for."""
        metadata = embedded_metadata(self.path)
        return Wheel(
            filename=self.path.name,
            url=f"http://{WHEELHOUSE}.invalid/{self.path.name}",
            sha256=sha256_file(self.path),
            size=self.path.stat().st_size,
            requires_python=metadata.requires_python,
            requires_dist=metadata.requires_dist,
        )


def build_urls(
    target: Target, engine: UvResolver, builder: SourceBuilder
) -> tuple[Target, list[BuiltWheel]]:
    """Build what a spec requires by URL; return the spec with pins in place of the URLs.

    Raises:
        SpecError: A source is of another distribution, or is compiled for another platform.
        ToolError: It cannot be fetched or built.
    """
    requirements, built = [], []
    for text in target.pip.requirements:
        requirement = Requirement(text)
        if not requirement.url:
            requirements.append(text)
        elif not requirement.marker or requirement.marker.evaluate(_markers(target)):
            source = builder.pinned(requirement.url)
            wheel = _build(target, requirement.name, source, engine, builder)
            if wheel.name != canonicalize_name(requirement.name):
                raise SpecError(
                    f"{target.name}: {requirement.url} is {wheel.name}, not {requirement.name}",
                    remedy=f"write `{wheel.name} @ {requirement.url}`",
                )
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            requirements.append(f"{wheel.name}{extras}=={wheel.version}")
            built.append(wheel)
    pip = target.pip.model_copy(update={"requirements": tuple(requirements)})
    return target.model_copy(update={"pip": pip}), built


def build_sdists(
    target: Target, pins: Pins, engine: UvResolver, builder: SourceBuilder
) -> list[BuiltWheel]:
    """Build the distributions of ``[pip] build`` at the versions that were resolved.

    Raises:
        SpecError: One has no sdist, or is compiled for another platform.
        ToolError: It cannot be fetched or built.
    """
    wanted = {name: pins[name] for name in target.pip.build if name in pins}
    for name in sorted(set(target.pip.build) - wanted.keys()):
        builder.progress.note(f"{target.name}: [pip] build names {name}, which nothing requires")
    found = engine.sdists(target, wanted)
    return [_build(target, name, source, engine, builder) for name, source in found.items()]


def _build(
    target: Target, name: str, source: str, engine: UvResolver, builder: SourceBuilder
) -> BuiltWheel:
    requires: tuple[str, ...] = ()
    named: list[str] = []
    with _BUILDING:
        builder.progress.step(f"{target.name}: {name} from {source.partition(' ')[0]}")
        for _ in range(_ROUNDS):
            made = builder.wheel(name, source, requires)
            if isinstance(made, Path):
                break
            # uv asks for the requirements of the build, as each of them must have a hash.
            lacking = [n for line in _LACKING.findall(made.stderr)
                       for n in re.findall(r"`([^`]+)`", line)]  # fmt: skip
            if not set(lacking) - set(named):
                made.require(f"could not build {name} from {source}")
            named = list(dict.fromkeys([*named, *lacking]))
            requires = engine.build_requirements(target, named)
        else:
            raise ToolError(f"the build of {name} always requires more", evidence=", ".join(named))
    if not best_wheel([made.name], target.platform, target.python):
        raise SpecError(
            f"{name} is compiled: {made.name} does not serve {target.platform}",
            cause="a wheel with compiled code is built on its own platform",
            remedy=f"lock {target.name} on {target.platform}, or without {name}",
        )
    return BuiltWheel(made, source, requires)


def refuse_source_only(
    target: Target,
    failed: Completed,
    resolve: Callable[[Sequence[str]], Completed | None],
) -> None:
    """Refuse a spec that needs distributions without wheels, and name all of them.

    Args:
        target: The spec.
        failed: The failed run of the resolver.
        resolve: Resolves without some distributions; returns the failed run, None on success.

    Raises:
        SpecError: It has the line to add to the spec.
    """
    names: list[str] = []
    run: Completed | None = failed
    while run and (new := set(_SOURCE_ONLY.findall(run.stderr)) - set(names)):
        names = sorted({*names, *new})
        run = resolve(names)
    if names:
        line = ", ".join(f'"{name}"' for name in sorted({*target.pip.build, *names}))
        raise SpecError(
            f"{target.name}: {', '.join(names)}: as source only, and only wheels are locked",
            cause="a build runs the code of the package, so the spec has to name it",
            remedy=f"write `build = [{line}]` into [pip] of envs/{target.name}.toml",
        )


def _markers(target: Target) -> dict[str, str]:
    python = {"python_version": target.python, "python_full_version": f"{target.python}.0"}
    known = {key: str(value) for key, value in default_environment().items()}
    return known | _MARKERS[target.platform] | python
