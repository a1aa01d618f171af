"""What a lock, its spec and the catalogs know of a package: who requires it, in which versions."""

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from provision.catalog.releases import catalog_wheels
from provision.catalog.snapshot import Wheel
from provision.commands.explanation import Chain, Limit
from provision.core.filesystem import read_link
from provision.core.project import CURRENT, Project
from provision.environment.installed import name_of
from provision.environment.requires import locked_requirements
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock
from provision.lockfile.requirers import THE_SPEC, chains_of
from provision.spec.model import Target
from provision.spec.own import OwnPackage, own_packages
from provision.spec.places import Line, Places

_KINDS = {"constraints": "constraint", "overrides": "override"}


class Metadata:
    """What wheels require, as far as the catalogs and the environments of a project tell."""

    def __init__(self, project: Project, targets: Iterable[str]) -> None:
        self._project = project
        links = (project.environments(name) / CURRENT for name in targets)
        self._prefixes = [prefix for prefix in map(read_link, links) if prefix]
        self.wheels = functools.cache(self._wheels)
        self.of = functools.cache(self._of)

    def _wheels(self, index: str, name: str) -> tuple[Wheel, ...]:
        """Return the wheels of a distribution in a catalog index."""
        return catalog_wheels(self._project.catalog, index, {name})

    def _of(self, artifact: Artifact) -> tuple[str, ...] | None:
        """Return the ``Requires-Dist`` lines of a locked wheel; None where nothing here has them."""
        if artifact.index not in {"default", WHEELHOUSE}:
            for wheel in self.wheels(artifact.index, artifact.name):
                if wheel.sha256 == artifact.sha256:
                    return wheel.requires_dist
        for prefix in self._prefixes:
            if found := locked_requirements(prefix, [artifact]):
                return found[artifact.sha256]
        return None


@dataclass(frozen=True)
class LockedTarget:
    """A target with its lock, the lines of its project, and what is known of its packages."""

    target: Target
    lock: Lock
    places: Places
    metadata: Metadata

    @functools.cached_property
    def artifacts(self) -> dict[str, Artifact]:
        """The pip layer by name."""
        return {artifact.name: artifact for artifact in self.lock.artifacts}

    @functools.cached_property
    def via(self) -> dict[str, tuple[str, ...]]:
        """What requires each package."""
        return {name: artifact.via for name, artifact in self.artifacts.items()}

    @functools.cached_property
    def own(self) -> dict[str, OwnPackage]:
        """The own packages whose names their files tell."""
        found = own_packages(self.target.pip.local, self.places.root)
        return {package.name: package for package in found if package.name}

    def lines(self, name: str) -> list[Line]:
        """Return the lines of the project that require a distribution on this target."""
        lines = self.places.about(name)
        # An override requires nothing: it replaces what others require.
        asked = [line for line in lines if line.key == "requirements"]
        return [line for line in asked if self.applies(line.text)]

    def applies(self, text: str, extras: Iterable[str] = ()) -> bool:
        """Whether a requirement holds on the target, with some extras of what requires it."""
        marker = Requirement(text).marker
        markers: dict[str, str] = dict(self.target.markers)
        return marker is None or any(
            marker.evaluate({**markers, "extra": extra}) for extra in ("", *extras)
        )

    def required(self, user: str, name: str) -> list[str] | None:
        """Return the requirements by which a locked package requires another; None: not known."""
        lines = self.metadata.of(self.artifacts[user])
        if lines is None:
            return None
        about = _about(name, lines)
        extras = self._extras(user) if any("extra" in text for text in about) else set()
        # Without any, an extra that something unknown requires has it.
        return [text for text in about if self.applies(text, extras)] or None

    def _extras(self, name: str) -> set[str]:
        """Return the extras of a package that are required, as far as that is known."""
        texts = [line.text for line in self.lines(name)]
        for user in self.via[name]:
            if user in self.own:
                texts += _about(name, [line.text for line in self.own[user].lines])
            elif user in self.artifacts:
                texts += _about(name, self.metadata.of(self.artifacts[user]) or ())
        return {extra for text in texts for extra in Requirement(text).extras}


def _about(name: str, texts: Iterable[str]) -> list[str]:
    """Return the requirements of one distribution; what is none, as metadata can have, is left out."""
    found = []
    for text in texts:
        if name_of(text) == name:
            with contextlib.suppress(InvalidRequirement):
                found.append(str(Requirement(text)))
    return found


def chains(locked: LockedTarget, name: str) -> Iterator[Chain]:
    """Yield through whom a package is required, the shortest way first."""
    for line in locked.lines(name):
        yield Chain((), line.text, line.place, line.source)
    for users in chains_of(name, locked.via):
        before = [name, *users][-2]
        for line in _last_lines(locked, users[-1], before):
            yield Chain(tuple(users), line.text, line.place, line.source)


def _last_lines(locked: LockedTarget, root: str, before: str) -> Sequence[Line]:
    """Return the lines that a chain ends with: of the project, or of an own package in it."""
    if own := locked.own.get(root):
        lines = [line for line in own.lines if line.name == before]
        return lines or [locked.places.line(own.text)]
    if root in locked.lock.local:  # whose name only a build tells
        return [line for line in locked.places.lines if line.key == "local"]
    return locked.lines(root) or [locked.places.line(root)]


def limits(locked: LockedTarget, name: str) -> list[Limit]:
    """Return what limits the version of a package, lines of the project first."""
    lines = locked.places.about(name)
    found = [_of_line(line) for line in lines if locked.applies(line.text)]
    if any(limit.kind == "override" for limit in found):  # which replaces the rest
        return [limit for limit in found if limit.kind != "line"]
    for user in locked.via[name]:
        if user in locked.own:
            lines = [line for line in locked.own[user].lines if line.name == name]
            found += map(_of_line, lines)
        elif user in locked.artifacts:
            found += _of_package(locked, user, name)
        elif user != THE_SPEC:  # an own package that only its build describes
            found.append(Limit(user, "package", None))
    return list(dict.fromkeys(found))


def _of_line(line: Line) -> Limit:
    kind = _KINDS.get(line.key, "line")
    return Limit(line.place, kind, versions_in(line.text))  # type: ignore[arg-type]


def _of_package(locked: LockedTarget, user: str, name: str) -> Iterator[Limit]:
    by = f"{user} {locked.artifacts[user].version}"
    texts = locked.required(user, name)
    if texts is None:
        yield Limit(by, "package", None)
    for text in texts or ():
        yield Limit(by, "package", versions_in(text))


def versions_in(text: str) -> str:
    """Return the versions that a requirement allows, or the URL that it names; "" for any."""
    asked = Requirement(text)
    # In the order of the metadata of packages, which has no fixed one.
    parts = sorted(asked.specifier, key=lambda part: (part.operator, part.version))
    return f"@ {asked.url}" if asked.url else ",".join(map(str, parts))


def admits(limit: Limit, version: str) -> bool:
    """Whether a limit allows a version, as far as it is known."""
    if limit.versions is None or limit.versions.startswith("@"):
        return limit.versions is None
    return SpecifierSet(limit.versions).contains(version, prereleases=True)


def exact_version(limit: Limit) -> str:
    """Return the one version that a limit allows, or its URL; "" where it allows several."""
    versions = limit.versions or ""
    exact = re.fullmatch(r"@ .+|===?([^,*]+)", versions)
    return (exact[1] or versions) if exact else ""
