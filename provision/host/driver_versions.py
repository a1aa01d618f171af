"""Compare driver versions across their numberings; the answer is yes, no or unknown.

What the numberings of one Intel driver share is the five-digit build of compute-runtime. Level
Zero, and so torch: ``1.6.33578+51`` is API, build, hotfix (compute-runtime, level_zero/doc/
experimental_extensions/GET_DRIVER_VERSION_STRING.md); packages: ``25.18.33578.51-1146~24.04``;
OpenCL pads the build: ``26.05.037020``; Windows: ``32.0.101.6129`` holds no build, and its last two
fields order the drivers (https://www.intel.com/content/www/us/en/support/articles/000005654/graphics.html).
The catalog lists pairs that were seen; a version between two has a build between theirs. NVIDIA has
``580.65.06`` on Linux, ``580.88`` on Windows, ``32.0.15.8088`` in its registry. Apple's is macOS's.
"""

import math
import operator
import re
from collections.abc import Iterator
from typing import NamedTuple

from packaging.specifiers import Specifier

from provision.catalog.devices import Devices
from provision.host.windows import nvidia_version

Parts = tuple[float, ...]

_WINDOWS = re.compile(r"\d{1,2}\.(?:0|20)\.(10\d)(?:\.(\d{1,5}))?", re.ASCII)
# Level Zero, Linux packages of any distribution, and OpenCL.
_BUILD = re.compile(
    r"(?:\d{1,2}\.){1,2}0*(\d{5,6})(?:[.+](\d{1,5}))?(?:[-+~].*)?", re.ASCII
)
# Year and week, or the 0 of Devices.release_of for a build older than every listed release. A first
# field from 30 on is that of a Windows number: WDDM 3.0 and newer.
_RELEASE = re.compile(r"0(?=\.)|(2\d)(?:\.(\d{1,2}))?(?=\.|$)", re.ASCII)
_PLAIN = {
    "nvidia": re.compile(r"\d{3,4}(?:\.\d{1,3}){0,2}", re.ASCII),
    "apple": re.compile(r"\d{2}(?:\.\d{1,3}){0,2}", re.ASCII),  # macOS
}
_ORDERS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_NVIDIA_REGISTRY = re.compile(r"\d{1,2}(?:\.\d{1,5}){3}", re.ASCII)


class DriverVersion(NamedTuple):
    """A parsed driver version."""

    text: str  # as the machine or the spec writes it
    scheme: str  # ``windows``, ``build``, ``release`` (a package's without its build) or the vendor
    parts: Parts  # what orders the versions of a scheme, such as ``(101, 6129)`` or ``(33578, 51)``
    release: Parts = ()  # year and week of a Linux package; empty elsewhere


def parse(text: str, vendor: str) -> DriverVersion | None:
    """Return a version of a vendor's driver, None if its format is not known."""
    if pattern := _PLAIN.get(vendor):
        plain = text
        if _NVIDIA_REGISTRY.fullmatch(text):
            plain = nvidia_version(text)
        if not pattern.fullmatch(plain):
            return None
        return DriverVersion(text, vendor, _numbers(*plain.split(".")))
    if match := _WINDOWS.fullmatch(text):
        return DriverVersion(text, "windows", _numbers(*match.groups()))
    first_two = _RELEASE.match(text)
    release: Parts = ()
    if first_two:
        release = _numbers(*first_two.groups()) or (0,)
    if match := _BUILD.fullmatch(text):
        return DriverVersion(text, "build", _numbers(*match.groups()), release)
    if first_two and first_two[0] == text:
        return DriverVersion(text, "release", release, release)
    return None


def meets(
    version: DriverVersion, specifier: Specifier, vendor: str, devices: Devices | None
) -> bool | None:
    """Whether a version meets one specifier, None if that cannot be decided.

    Only ``>=``, ``>``, ``<=`` and ``<`` are decided: no build number stands for digits.
    """
    holds = _ORDERS.get(specifier.operator)
    floor = parse(specifier.version, vendor)
    # A release alone stands for many builds.
    if holds is None or floor is None or version.scheme == "release":
        return None
    low, high = _bounds(version, floor, devices)
    least, most = _bounds(floor, version, devices)
    if version.scheme == "build" and floor.scheme == "windows":
        low = high = low[:1]  # the pairs have no hotfixes
    if len(low) < len(most):
        high = (*high, math.inf)  # 580.65 may be 580.65.06, and 33578 may be 33578+51
    # What holds for the ends of two intervals holds for all values between them.
    results = set()
    for end in (low, high):
        results |= {holds(end, least), holds(end, most)}
    return results.pop() if len(results) == 1 else None


def explain(
    version: DriverVersion, specifier: Specifier, vendor: str, devices: Devices | None
) -> list[str]:
    """Return which builds the catalog gives to numbers that hold none, where it was needed."""
    floor = parse(specifier.version, vendor)
    if devices is None or floor is None or floor.scheme == version.scheme:
        return []
    lines = []
    for one in (version, floor):
        if one.scheme != "build":
            low, high = _bracket(one, devices)
            lines.append(f"{one.text} is build {_range(low[0], high[0])}")
    return lines


def _bounds(
    version: DriverVersion, other: DriverVersion, devices: Devices | None
) -> tuple[Parts, Parts]:
    """Return the least and the greatest value that a version can have beside another one."""
    # Without the catalog a release cannot become a build, but two releases order packages as well.
    has_releases = version.release and other.release
    if devices is None and has_releases and version.scheme != other.scheme:
        return version.release, version.release
    if version.scheme in ("build", other.scheme):
        return version.parts, version.parts
    return _bracket(version, devices)


def _bracket(version: DriverVersion, devices: Devices | None) -> tuple[Parts, Parts]:
    """Return the builds between which a Windows number or a release is, by the catalog."""
    low, high = 0.0, math.inf
    if devices is None:
        return (low,), (high,)
    for number, build in _builds(version.scheme, devices):
        if number <= version.parts:
            low = max(low, build)
        if number >= version.parts:
            high = min(high, build)
    if version.scheme == "release" and high < math.inf:
        low = high  # the catalog lists every release: the next one is the first that counts
    return (low,), (high,)


def _builds(scheme: str, devices: Devices) -> Iterator[tuple[Parts, float]]:
    """Yield the numbers of a scheme that the catalog lists, each with its build."""
    if scheme == "release":
        for build, release in devices.releases:
            yield _numbers(*release.split(".")), build
    elif scheme == "windows":
        for windows, level_zero in devices.intel_windows.items():
            number, build_of = parse(windows, "intel"), parse(level_zero, "intel")
            if number and build_of:
                yield number.parts, build_of.parts[0]


def _range(low: float, high: float) -> str:
    if low == high:
        return f"{low:.0f}"
    if math.isinf(high):
        return f"{low:.0f} or newer"
    if not low:
        return f"{high:.0f} or older"
    return f"{low:.0f} to {high:.0f}"


def _numbers(*fields: str | None) -> Parts:
    return tuple(int(field) for field in fields if field)


def numbers_of(version: str) -> list[int]:
    """Return the numbers in a version, by which releases compare: 1.9 is older than 1.17."""
    return [int(part) for part in re.findall(r"\d+", version)]
