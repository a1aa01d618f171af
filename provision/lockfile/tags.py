"""Wheel tags of a platform, and the best of several wheels for it."""

from collections.abc import Iterable

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from provision.core.platforms import PLATFORMS


def tags(platform: str, python: str, glibc: str | None = None) -> list[Tag]:
    """Return every wheel tag that a CPython minor version supports on a platform, best first."""
    major, minor = map(int, python.split("."))
    platforms = PLATFORMS[platform].with_glibc(glibc).tags
    own = cpython_tags((major, minor), platforms=platforms)
    return [*own, *compatible_tags((major, minor), f"cp{major}{minor}", platforms)]


def best_wheel(
    filenames: Iterable[str], platform: str, python: str, glibc: str | None = None
) -> str | None:
    """Return the wheel that an installer would take on a platform, or None if none fits.

    Of two with equal tags, the one with the higher build number wins, as in pip.
    """
    rank = {tag: position for position, tag in enumerate(tags(platform, python, glibc))}
    fitting: list[tuple[int, tuple[int, str] | tuple[()], str]] = []
    for filename in filenames:
        _, _, build, wheel_tags = parse_wheel_filename(filename)
        if ranks := [rank[tag] for tag in wheel_tags if tag in rank]:
            # The name decides last, so that the order of an index cannot.
            fitting.append((-min(ranks), build, filename))
    return max(fitting)[2] if fitting else None
