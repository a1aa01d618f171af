"""A spec without a lock lacks hashes and nothing else: its verbs say so, and a hash is all it takes."""

from __future__ import annotations

import pytest

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.core.errors import SpecError
from provision.lockfile.tags import best_wheel
from provision.resolver.resolver import offered
from provision.spec.model import Target, parse_requirement
from provision.spec.reader import load_target, target_names
from tests.checkout import LOCKABLE, PROJECT

UNLOCKED = sorted(set(target_names(PROJECT.specs)) - set(LOCKABLE))


def fitting(target: Target, name: str, specifier: str = "") -> list[Wheel]:
    """Return the wheels of a catalog that fit a target's machine and a range."""
    snapshot = load_snapshot(PROJECT.catalog, target.pip.index_of(name), Index)
    wanted = parse_requirement(f"{name}{specifier}").specifier
    return [
        wheel
        for wheel in snapshot.of(name)
        if wanted.contains(wheel.version, prereleases=True)
        and best_wheel([wheel.filename], *target.machine)
    ]


@pytest.mark.parametrize("name", UNLOCKED)
def test_lock_names_the_part_that_has_no_hash(name: str) -> None:
    target = load_target(PROJECT.specs, name)
    with pytest.raises(SpecError, match="has no usable wheel of") as caught:
        offered(target, PROJECT.catalog)
    assert "its SHA-256 is unknown" in (caught.value.evidence or "")
    assert "provision update" in (caught.value.remedy or "")
    assert "provision update" in (target.reason or "")


def test_a_hash_is_all_that_vllm_for_xpu_lacks() -> None:
    target = load_target(PROJECT.specs, "vllm-xpu-linux")
    asked = {}
    for text in target.pip.requirements:
        requirement = parse_requirement(text)
        asked[requirement.name] = str(requirement.specifier)
    (vllm,) = fitting(target, "vllm", asked["vllm"])
    needs = [parse_requirement(text) for text in vllm.requires_dist or ()]
    asked |= {need.name: str(need.specifier) for need in needs if need.name == "triton"}
    (torch,) = fitting(target, "torch", asked["torch"])
    for text in torch.requires_dist or ():
        if text.startswith("triton-xpu"):
            asked["triton-xpu"] = text.removeprefix("triton-xpu")
    unhashed = set()
    for names in target.pip.index.values():
        for name in names:
            wheels = fitting(target, name, asked.get(name, ""))
            assert wheels, name
            assert all(wheel.requires_dist is not None for wheel in wheels), name
            unhashed |= {name for wheel in wheels if wheel.sha256 is None}
    assert unhashed == {"vllm", "triton"}
    # The torch that it asks for is the one that the vllm wheel was built for.
    (built_for,) = [need for need in needs if need.name == "torch"]
    assert built_for.specifier.contains(torch.version)


def test_the_older_shim_has_its_hash_from_two_public_files() -> None:
    shims = load_snapshot(PROJECT.catalog, "vllm-triton", Index).of("triton")
    (shim,) = [shim for shim in shims if shim.version == "3.7.2+xpu"]
    assert shim.confirmed
    assert len(shim.sources) == 2
    assert shim.requires_dist == ("triton-xpu==3.7.2",)
