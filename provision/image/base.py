"""The base image: one whose glibc is new enough for all that an image gets.

What is known of published images is in the catalog; of another one the build itself asks, first of all.
"""

import re
import tomllib
from typing import NamedTuple

from packaging.version import Version

from provision.core.errors import UsageError, damage_in
from provision.core.project import fact
from provision.image.request import ImageRequest

# Of python-build-standalone (https://gregoryszorc.com/docs/python-build-standalone/main/running.html).
_INTERPRETER = "2.17"


class Base(NamedTuple):
    """A base image and what is known of it."""

    image: str
    glibc: str | None = None  # None: not known
    packages: dict[str, str] = {}  # noqa: RUF012 - drivers that its distribution has, with their versions


class Need(NamedTuple):
    """The oldest glibc that works, and what needs it."""

    glibc: str
    by: str


def required_glibc(request: ImageRequest) -> Need:
    """Return the oldest glibc on which the interpreter, the wheels and the driver set run."""
    needs = [Need(_INTERPRETER, "its Python")]
    for artifact in request.lock.artifacts:
        # PEP 600: of several tags the oldest is enough; those without a number are older still.
        if minors := re.findall(r"manylinux_2_(\d+)_", artifact.filename):
            needs.append(Need(f"2.{min(map(int, minors))}", artifact.filename))
    drivers = request.drivers()
    if drivers and drivers.glibc:
        by = f"the driver set {request.docker().drivers}"
        needs.append(Need(drivers.glibc, by))
    return max(needs, key=lambda need: Version(need.glibc))


def find_base(request: ImageRequest) -> Base:
    """Return the named base image, or else the oldest of the catalog on which everything runs.

    UsageError: its glibc is known to be too old, or that of every one of the catalog is.
    """
    need = required_glibc(request)
    listed = _listed(request)
    oldest = Version(need.glibc)
    fitting = [base for base in listed if Version(str(base.glibc)) >= oldest]
    if request.base_image:
        base = _described(request.base_image, listed)
        if base.glibc is None or Version(base.glibc) >= oldest:
            return base
        evidence = f"{base.image} has glibc {base.glibc}"
    elif fitting:
        return fitting[0]
    else:
        evidence = f"the newest base image of the catalog has glibc {listed[-1].glibc}"
    remedy = "name one with --base-image"
    if fitting:
        remedy += f", such as {fitting[0].image}"
    raise UsageError(
        f"the image of {request.target.name} needs a base image with glibc {need.glibc} or newer",
        evidence=evidence,
        cause=f"{need.by} is built for glibc {need.glibc}",
        remedy=remedy,
    )


def _listed(request: ImageRequest) -> list[Base]:
    """Return the base images of the catalog, the oldest first."""
    path = fact(request.project.catalog, "distributions.toml")
    with damage_in(path, "restore it from version control"):
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        listed = []
        for table in tables.values():
            packages = table["packages"].items()
            versions = {package: row["version"] for package, row in packages}
            listed.append(Base(table["image"], table["glibc"], versions))
    return sorted(listed, key=lambda base: Version(str(base.glibc)))


def _described(image: str, listed: list[Base]) -> Base:
    """Return a named image with what is known of its release, as `debian:bookworm` of any day."""
    for base in listed:
        release = re.match(r"[a-z]+:[a-z]+", base.image)
        if release and re.match(rf"{release[0]}(?![a-z0-9])", image):
            return base._replace(image=image)
    return Base(image)
