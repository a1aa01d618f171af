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
        self._prefixes = []
        for name in targets:
            prefix = read_link(project.environments(name) / CURRENT)
            if prefix:
                self._prefixes.append(prefix)
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
            requirements = locked_requirements(prefix, [artifact])
            if requirements:
                return requirements[artifact.sha256]
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
        packages = own_packages(self.target.pip.local, self.places.root)
        return {package.name: package for package in packages if package.name}

    @property
    def local_lines(self) -> list[Line]:
        """The lines of the project that name own packages."""
        return [line for line in self.places.lines if line.key == "local"]

    def lines(self, name: str) -> list[Line]:
        """Return the lines of the project that require a distribution on this target."""
        lines = []
        for line in self.places.about(name):
            # An override requires nothing: it replaces what others require.
            if line.key == "requirements" and self.applies(line.text):
                lines.append(line)
        return lines

    def applies(self, text: str, extras: Iterable[str] = ()) -> bool:
        """Whether a requirement holds on the target, with some extras of what requires it."""
        marker = Requirement(text).marker
        if marker is None:
            return True
        markers = self.target.markers
        every = [markers | {"extra": extra} for extra in ("", *extras)]
        return any(map(marker.evaluate, every))

    def required(self, user: str, name: str) -> list[str]:
        """Return the requirements by which a locked package requires another; none: not known."""
        texts = self._known(user, name)
        extras = set[str]()
        if any("extra" in text for text in texts):
            extras = self._extras(user)
        # Without any, an extra that something unknown requires has it.
        return [text for text in texts if self.applies(text, extras)]

    def _extras(self, name: str) -> set[str]:
        """Return the extras of a package that are required, as far as that is known."""
        texts = [line.text for line in self.lines(name)]
        for user in self.via[name]:
            texts += self._known(user, name)
        extras = set[str]()
        for text in texts:
            extras |= Requirement(text).extras
        return extras

    def _known(self, user: str, name: str) -> list[str]:
        """Return by what a package requires another; what is no requirement is left out."""
        texts: Iterable[str] = ()
        if user in self.own:
            texts = [line.text for line in self.own[user].lines]
        elif user in self.artifacts:
            texts = self.metadata.of(self.artifacts[user]) or ()
        requirements = []
        for text in texts:
            if name_of(text) == name:
                with contextlib.suppress(
                    InvalidRequirement
                ):  # metadata can have any text
                    requirements.append(str(Requirement(text)))
        return requirements


def packages_of(users: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of what requires one, without the lines of the project."""
    return tuple(user for user in users if user != THE_SPEC)


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
    own = locked.own.get(root)
    if own:
        lines = [line for line in own.lines if line.name == before]
        return lines or [locked.places.line(own.text)]
    if root in locked.lock.local:  # whose name only a build tells
        return locked.local_lines
    return locked.lines(root) or [locked.places.line(root)]


def limits_of(locked: LockedTarget, name: str) -> list[Limit]:
    """Return what limits the version of a package, lines of the project first."""
    lines = locked.places.about(name)
    limits = [_of_line(line) for line in lines if locked.applies(line.text)]
    if any(limit.kind == "override" for limit in limits):  # which replaces the rest
        return [limit for limit in limits if limit.kind != "line"]
    for user in locked.via[name]:
        if user in locked.own:
            lines = [line for line in locked.own[user].lines if line.name == name]
            limits += map(_of_line, lines)
        elif user in locked.artifacts:
            limits += _of_package(locked, user, name)
        elif user != THE_SPEC:  # an own package that only its build describes
            limits.append(Limit(user, "package", None))
    return list(dict.fromkeys(limits))


def _of_line(line: Line) -> Limit:
    kind = _KINDS.get(line.key, "line")
    return Limit(line.place, kind, versions_in(line.text))  # type: ignore[arg-type]


def _of_package(locked: LockedTarget, user: str, name: str) -> list[Limit]:
    by = f"{user} {locked.artifacts[user].version}"
    texts = locked.required(user, name)
    if not texts:
        return [Limit(by, "package", None)]
    return [Limit(by, "package", versions_in(text)) for text in texts]


def versions_in(text: str) -> str:
    """Return the versions that a requirement allows, or the URL that it names; "" for any."""
    requirement = Requirement(text)
    if requirement.url:
        return f"@ {requirement.url}"
    # In the order of the metadata of packages, which has no fixed one.
    parts = sorted(
        requirement.specifier, key=lambda part: (part.operator, part.version)
    )
    return ",".join(map(str, parts))


def admits(limit: Limit, version: str) -> bool:
    """Whether a limit allows a version, as far as it is known."""
    if limit.versions is None:
        return True
    if limit.versions.startswith("@"):
        return False
    return SpecifierSet(limit.versions).contains(version, prereleases=True)


def exact_version(limit: Limit) -> str:
    """Return the one version that a limit allows, or its URL; "" where it allows several."""
    versions = limit.versions or ""
    exact = re.fullmatch(r"@ .+|===?([^,*]+)", versions)
    if exact is None:
        return ""
    return exact[1] or versions
