"""Targets lock with other Pythons than their own: the catalogs hold what each of them needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.catalog.snapshot import Channel, Index, load_snapshot
from provision.core.platforms import PYTHONS
from provision.lockfile.tags import best_wheel
from provision.spec.model import parse_requirement
from provision.spec.reader import load_target

ENVS = Path(__file__).parents[2] / "envs"


@pytest.mark.parametrize(
    ("name", "pythons", "besides"),
    [
        ("arc-linux", PYTHONS, {"triton-xpu": ">=3.7"}),
        ("arc-windows", PYTHONS, {"triton-xpu": ">=3.7"}),
        ("max-linux", PYTHONS, {"triton-xpu": ">=3.7"}),
        ("cuda-windows", PYTHONS, {}),
    ],
)
def test_each_python_has_the_wheels_of_a_target(
    name: str, pythons: tuple[str, ...], besides: dict[str, str]
) -> None:
    target = load_target(ENVS, name)
    (index,) = target.pip.index
    wheels = load_snapshot(ENVS / "catalog", index, Index).files
    needed = dict(besides)
    for text in target.pip.requirements:
        requirement = parse_requirement(text)
        if requirement.name in target.pip.index[index]:
            needed[requirement.name] = str(requirement.specifier)
    assert needed.keys() == {"torch", "torchvision", *besides}
    for python in pythons:
        for distribution, specifier in needed.items():
            requirement = parse_requirement(f"{distribution}{specifier}")
            fitting = [
                wheel.filename
                for wheel in wheels
                if wheel.name == distribution
                and requirement.specifier.contains(wheel.version, prereleases=True)
                and not wheel.lacks
            ]
            assert best_wheel(fitting, target.platform, python), (python, distribution)


@pytest.mark.parametrize("platform", ["linux-64", "win-64"])
def test_each_python_has_an_interpreter(platform: str) -> None:
    packages = load_snapshot(ENVS / "catalog", "conda-forge", Channel).packages
    versions = {
        package.version
        for package in packages
        if package.name == "python" and package.subdir == platform
    }
    for python in PYTHONS:
        assert any(version.startswith(f"{python}.") for version in versions), python
