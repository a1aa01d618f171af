"""Wheel tags of a platform, and the best of several wheels for it."""

from collections.abc import Iterable

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

# The glibc that the vendors' own Linux wheels need at least: 2.28 (Debian 10, RHEL 8).
_GLIBC = 28
_ALIASES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}  # PEP 600

UV_NAMES = {"linux-64": f"x86_64-manylinux_2_{_GLIBC}", "win-64": "x86_64-pc-windows-msvc"}
_MARKERS = {
    "linux-64": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
                 "platform_machine": "x86_64"},
    "win-64": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt",
               "platform_machine": "AMD64"},
}  # fmt: skip


def markers(platform: str, python: str) -> dict[str, str]:
    """Return the environment markers (PEP 508) of a CPython minor version on a platform."""
    return _MARKERS[platform] | {"implementation_name": "cpython", "python_version": python,
                                 "python_full_version": f"{python}.0"}  # fmt: skip


def wheel_platforms(platform: str) -> list[str]:
    """Return the platform tags that ``linux-64`` or ``win-64`` supports, best first."""
    if platform == "win-64":
        return ["win_amd64"]
    tags: list[str] = []
    # Down to glibc 2.5 of manylinux1 (PEP 513), the oldest that a manylinux tag names.
    for minor in range(_GLIBC, 4, -1):
        tags.append(f"manylinux_2_{minor}_x86_64")
        if minor in _ALIASES:
            tags.append(f"{_ALIASES[minor]}_x86_64")
    # The default index refuses this tag, but Intel's index has such wheels, IPEX among them.
    return [*tags, "linux_x86_64"]


def tags(platform: str, python: str) -> list[Tag]:
    """Return every wheel tag that a CPython minor version supports on a platform, best first."""
    major, minor = map(int, python.split("."))
    platforms = wheel_platforms(platform)
    own = cpython_tags((major, minor), platforms=platforms)
    return [*own, *compatible_tags((major, minor), f"cp{major}{minor}", platforms)]


def best_wheel(filenames: Iterable[str], platform: str, python: str) -> str | None:
    """Return the wheel that an installer would take on a platform, or None if none fits.

    Of two with equal tags, the one with the higher build number wins, as in pip.
    """
    rank = {tag: position for position, tag in enumerate(tags(platform, python))}
    fitting: list[tuple[int, tuple[int, str] | tuple[()], str]] = []
    for filename in filenames:
        _, _, build, wheel_tags = parse_wheel_filename(filename)
        if ranks := [rank[tag] for tag in wheel_tags if tag in rank]:
            # The name decides last, so that the order of an index cannot.
            fitting.append((-min(ranks), build, filename))
    return max(fitting)[2] if fitting else None
