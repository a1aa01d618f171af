"""The best of several wheels for a platform."""

from collections.abc import Iterable
from functools import lru_cache

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from provision.core.platforms import PLATFORMS


@lru_cache(maxsize=32)  # `init` compares hundreds of wheels with those of one target
def _ranks(platforms: tuple[str, ...], python: str) -> dict[Tag, int]:
    """Return every wheel tag that a CPython minor version supports, with its place: 0 is best."""
    major, minor = map(int, python.split("."))
    own = cpython_tags((major, minor), platforms=platforms)
    others = compatible_tags((major, minor), f"cp{major}{minor}", platforms)
    return {tag: place for place, tag in enumerate([*own, *others])}


def best_wheel(
    filenames: Iterable[str], platform: str, python: str, glibc: str | None = None
) -> str | None:
    """Return the wheel that an installer would take on a platform, or None if none fits.

    Of two with equal tags, the one with the higher build number wins, as in pip.
    """
    rank = _ranks(tuple(PLATFORMS[platform].with_glibc(glibc).tags), python)
    fitting: list[tuple[int, tuple[int, str] | tuple[()], str]] = []
    for filename in filenames:
        _, _, build, wheel_tags = parse_wheel_filename(filename)
        if ranks := [rank[tag] for tag in wheel_tags if tag in rank]:
            # The name decides last, so that the order of an index cannot.
            fitting.append((-min(ranks), build, filename))
    return max(fitting)[2] if fitting else None
