"""The best of several wheels for a platform."""

from collections.abc import Iterable
from functools import lru_cache

from packaging.tags import Tag, compatible_tags, cpython_tags

from provision.core.platforms import PLATFORMS
from provision.core.wheel_name import NULL, parse_wheel_name


@lru_cache(maxsize=32)  # `init` compares hundreds of wheels with those of one target
def _ranks(platform: str, python: str, glibc: str | None) -> dict[Tag, int]:
    """Return every wheel tag that a CPython minor version supports, with its place: 0 is best."""
    platforms = PLATFORMS[platform].with_glibc(glibc).tags
    major, minor = map(int, python.split("."))
    tags = list(cpython_tags((major, minor), platforms=platforms))
    tags += compatible_tags((major, minor), f"cp{major}{minor}", platforms)
    return {tag: place for place, tag in enumerate(tags)}


def fits(filename: str, platform: str, python: str, glibc: str | None = None) -> bool:
    """Whether a machine can install a wheel by its tags; what a variant needs besides is not read."""
    rank = _ranks(platform, python, glibc)
    return any(tag in rank for tag in parse_wheel_name(filename).tags)


def best_wheel(
    filenames: Iterable[str], platform: str, python: str, glibc: str | None = None
) -> str | None:
    """Return the wheel that an installer would take on a platform, or None if none fits.

    Of two with equal tags, the one with the higher build number wins, as in pip. Of variants only
    that without properties counts, where there is no other wheel: it fits every machine.
    """
    rank = _ranks(platform, python, glibc)
    fitting = []
    for filename in filenames:
        wheel = parse_wheel_name(filename)
        ranks = [rank[tag] for tag in wheel.tags if tag in rank]
        if ranks and wheel.variant in {"", NULL}:
            # The name decides last, so that the order of an index cannot.
            fitting.append((not wheel.variant, -min(ranks), wheel.build, filename))
    if not fitting:
        return None
    *_, best = max(fitting)
    return best
