"""Requirements that are no wheel of an index: built first, then served to the resolver as wheels.

Their index on loopback, ``wheelhouse``, comes before all others: they are taken from there only.
"""

import functools
import json
import threading
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.artifacts.sources import SourceBuilder
from provision.catalog.simple_index import embedded_metadata
from provision.catalog.snapshot import Wheel
from provision.core.errors import SpecError, ToolError
from provision.core.hashing import sha256_file
from provision.core.wheel_name import parse_wheel_name
from provision.lockfile.pip import WHEELHOUSE
from provision.lockfile.tags import fits
from provision.resolver.uv import Pins, UvResolver
from provision.spec.model import Override, Target, requirement_name

# Targets are locked in parallel, and mostly need the same wheels.
_BUILDING = threading.Lock()


class BuiltWheel(NamedTuple):
    """A wheel in the wheelhouse, its source, and the pinned requirements of its build."""

    path: Path
    source: str
    requires: tuple[str, ...]

    @property
    def name(self) -> str:
        """The distribution, normalised."""
        return parse_wheel_name(self.path.name).name


def served_wheel(path: Path) -> Wheel:
    """Return a wheel of this machine as an entry of an index; its URL is never asked for."""
    return Wheel(
        filename=path.name,
        url=f"http://{WHEELHOUSE}.invalid/",
        sha256=sha256_file(path),
        size=path.stat().st_size,
        **embedded_metadata(path),
    )


def build_urls(
    target: Target, engine: UvResolver, builder: SourceBuilder
) -> tuple[Target, list[BuiltWheel]]:
    """Build what a spec requires by URL; return the spec with pins in place of the URLs."""
    requirements = []
    built = []
    pinned: dict[str, str] = {}
    overrides = list(target.pip.overrides)
    decided = {requirement_name(override.requirement) for override in overrides}
    sources = _pinned(target, builder)
    for text in target.pip.requirements:
        requirement = Requirement(text)
        if not requirement.url:
            requirements.append(text)
            continue
        if text not in sources:  # its marker excludes the target
            continue
        source = pinned.setdefault(requirement_name(text), sources[text])
        if source != sources[text]:
            raise SpecError(
                f"{target.name}: {requirement.name} is required from two places",
                evidence=f"{requirement.url}\n{source}",
                remedy="keep one of them, in the spec or in the file that it refers to",
            )
        wheel = _build(target, requirement.name, source, engine, builder)
        exact = _exact(target, requirement, wheel)
        requirements.append(exact)
        built.append(wheel)
        if target.pip.local and wheel.name not in decided:
            # An own package can require the same URL, which is in no index.
            reason = f"from {requirement.url}"
            overrides.append(Override(requirement=exact, reason=reason))
    changed = target.with_pip(
        requirements=tuple(requirements), overrides=tuple(overrides)
    )
    return changed, built


def _exact(target: Target, requirement: Requirement, wheel: BuiltWheel) -> str:
    """Return the pin of what was built for a requirement; SpecError if it is another package."""
    if wheel.name != canonicalize_name(requirement.name):
        raise SpecError(
            f"{target.name}: {requirement.url} is {wheel.name}, not {requirement.name}",
            remedy=f"write `{wheel.name} @ {requirement.url}`",
        )
    extras = ""
    if requirement.extras:
        extras = f"[{','.join(sorted(requirement.extras))}]"
    return f"{wheel.name}{extras}=={parse_wheel_name(wheel.path.name).version}"


def _pinned(target: Target, builder: SourceBuilder) -> dict[str, str]:
    """Return the source of each requirement with a URL; ToolError names all that cannot be had."""
    sources = {}
    failed = {}
    for text in target.pip.requirements:
        requirement = Requirement(text)
        if requirement.url and target.applies(requirement):
            try:
                sources[text] = builder.pinned(requirement.url)
            except ToolError as error:
                failed[text] = error
    if failed:
        raise _not_available(target, failed)
    return sources


def _not_available(target: Target, failed: dict[str, ToolError]) -> ToolError:
    spec = f"envs/{target.name}.toml"
    places = target.inputs.places
    lines = [f"{places.get(text, spec)} requires {text}" for text in failed]
    excluded = json.dumps([*target.pip.exclude, *map(requirement_name, failed)])
    first = next(iter(failed.values()))
    return ToolError(
        f"{target.name}: {first.what}",
        evidence="\n".join([first.evidence, *lines]),
        cause=first.cause,
        remedy=f"{first.remedy}\nto do without: write `exclude = {excluded}` into [pip] of {spec}",
    )


def build_sdists(
    target: Target, pins: Pins, engine: UvResolver, builder: SourceBuilder
) -> list[BuiltWheel]:
    """Build the distributions of ``[pip] build`` at the versions that were resolved."""
    required: Pins = {}
    for name in sorted(set(target.pip.build)):
        if name in pins:
            required[name] = pins[name]
        else:
            note = f"{target.name}: nothing requires {name} of [pip] build"
            builder.progress.note(note)
    wheels = []
    for name, source in engine.sdists(target, required).items():
        wheels.append(_build(target, name, source, engine, builder))
    return wheels


def _build(
    target: Target, name: str, source: str, engine: UvResolver, builder: SourceBuilder
) -> BuiltWheel:
    plain = target.with_pip(build=())
    pinned = functools.partial(engine.build_requirements, plain)
    with _BUILDING:
        made, requires = builder.wheel(name, source, (), pinned)
    if not fits(made.name, target.platform, target.python):
        raise SpecError(
            f"{name} is compiled: {made.name} does not fit {target.platform}",
            cause="a wheel with compiled code is built on its own platform",
            remedy=f"lock {target.name} on {target.platform}, or without {name}",
        )
    return BuiltWheel(made, source, requires)
