"""A spec without a lock lacks hashes and nothing else: its verbs say so, and a hash is all it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.catalog.snapshot import Index, Wheel, load_snapshot
from provision.core.errors import SpecError
from provision.lockfile.tags import best_wheel
from provision.resolver.resolver import offered
from provision.spec.model import Target, parse_requirement
from provision.spec.reader import load_target, target_names
from tests.checkout import LOCKABLE, PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterable

UNLOCKED = sorted(set(target_names(PROJECT.specs)) - set(LOCKABLE))


def fitting(target: Target, name: str, specifier: str = "") -> list[Wheel]:
    """Return the wheels of a catalog that fit a target's machine and a range."""
    snapshot = load_snapshot(PROJECT.catalog, target.pip.index_of(name), Index)
    accepted = parse_requirement(f"{name}{specifier}").specifier
    found = []
    for wheel in snapshot.of(name):
        in_range = accepted.contains(wheel.version, prereleases=True)
        if in_range and best_wheel([wheel.filename], *target.machine):
            found.append(wheel)
    return found


def specifiers(requirements: Iterable[str]) -> dict[str, str]:
    """Return the range of each package that is required."""
    found = {}
    for text in requirements:
        requirement = parse_requirement(text)
        found[requirement.name] = str(requirement.specifier)
    return found


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
    required = specifiers(target.pip.requirements)
    (vllm,) = fitting(target, "vllm", required["vllm"])
    of_vllm = specifiers(vllm.requires_dist or ())
    required["triton"] = of_vllm["triton"]
    (torch,) = fitting(target, "torch", required["torch"])
    required["triton-xpu"] = specifiers(torch.requires_dist or ())["triton-xpu"]
    unhashed = set()
    for names in target.pip.index.values():
        for name in names:
            wheels = fitting(target, name, required.get(name, ""))
            assert wheels, name
            for wheel in wheels:
                assert wheel.requires_dist is not None, name
                if wheel.sha256 is None:
                    unhashed.add(name)
    assert unhashed == {"vllm", "triton"}
    # The torch that it requires is the one that the vllm wheel was built for.
    assert torch in fitting(target, "torch", of_vllm["torch"])


def test_the_older_shim_has_its_hash_from_two_public_files() -> None:
    shims = load_snapshot(PROJECT.catalog, "vllm-triton", Index).of("triton")
    (shim,) = [shim for shim in shims if shim.version == "3.7.2+xpu"]
    assert shim.confirmed
    assert len(shim.sources) == 2
    assert shim.requires_dist == ("triton-xpu==3.7.2",)
