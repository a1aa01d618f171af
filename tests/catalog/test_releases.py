"""The releases of a catalog's index: which a machine can have, and why not the others."""

from __future__ import annotations

from provision.catalog.releases import releases_of, taken_variant
from provision.catalog.snapshot import Wheel
from tests.small import target_of

TARGET = target_of("win-64")


def wheel(version: str, *more: str, name: str = "torch", **facts: object) -> Wheel:
    """Return a wheel for the target, whose name may end with the label of a variant."""
    parts = (name, version, "cp311-cp311-win_amd64", *more)
    known = {"sha256": "a" * 64, "requires_dist": ("filelock",)}
    filename = f"{'-'.join(parts)}.whl"
    return Wheel(filename=filename, url="https://h/w", **known | facts)


def test_the_newest_comes_first_and_each_other_says_what_it_lacks() -> None:
    whole = wheel("2.10")
    others = (
        wheel("2.11", "cu128"),
        wheel("2.12", sha256=None),
        wheel("2.9", requires_python=">=3.12"),
        wheel("2.13", name="torchvision"),
    )
    linux = "torch-2.8-cp311-cp311-manylinux_2_28_x86_64.whl"
    elsewhere = whole.model_copy(update={"filename": linux})
    releases = releases_of("torch", (*others, whole, elsewhere), TARGET)
    lacks = {str(release.version): release.lacks for release in releases}
    assert [*lacks.items()] == [
        ("2.12", f"{others[1].filename}: its SHA-256 is unknown"),
        ("2.11", "it has no wheel without a variant, but cu128"),
        ("2.10", ""),
        ("2.9", "it requires Python >=3.12"),
        ("2.8", "it has no wheel for win-64 and Python 3.11"),
    ]
    requires = [release.requires for release in releases]
    assert requires == [None, None, ("filelock",), None, None]


def test_a_variant_is_the_one_of_the_spec_or_that_without_properties() -> None:
    plain, null, cuda = wheel("2.10"), wheel("2.10", "null"), wheel("2.10", "cu128")
    asks = target_of("win-64", index={"i": ("torch",)}, variants={"torch": "cu128"})
    assert taken_variant("torch", {"", "null"}, TARGET) == ""
    assert taken_variant("torch", {"null", "cu128"}, TARGET) == "null"
    assert taken_variant("torch", {"", "cu128"}, asks) == "cu128"
    (release,) = releases_of("torch", (plain,), asks)
    assert release.lacks == "it has no variant cu128, but no variant"
    for wheels in ((null, cuda), (cuda, null, wheel("1.0", sha256=None))):
        assert releases_of("torch", wheels, TARGET)[0].lacks == ""
