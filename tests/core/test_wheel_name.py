"""File names of wheels with and without a variant label."""

from __future__ import annotations

import pytest
from packaging.utils import InvalidWheelFilename
from packaging.version import Version

from provision.core.wheel_name import parse_wheel_name, split_variant

NAME = "Torch-2.15.0+cu130-{build}cp312-cp312-manylinux_2_28_x86_64{label}.whl"


@pytest.mark.parametrize("build", ["", "1-"])
@pytest.mark.parametrize("label", ["", "-cu130", "-null", "-x86_64_v3.mkl", "-1"])
def test_the_label_comes_last_with_and_without_a_build_number(
    build: str, label: str
) -> None:
    wheel = parse_wheel_name(NAME.format(build=build, label=label))
    assert (wheel.name, wheel.version) == ("torch", Version("2.15.0+cu130"))
    assert wheel.build == ((1, "") if build else ())
    assert {str(tag) for tag in wheel.tags} == {"cp312-cp312-manylinux_2_28_x86_64"}
    assert wheel.variant == label.removeprefix("-")
    plain = NAME.format(build=build, label="")
    assert split_variant(NAME.format(build=build, label=label))[0] == plain


@pytest.mark.parametrize(
    "label", ["CU130", "cu 130", "", "cu/130", "../x", "cü", "a\n"]
)
def test_attack_a_label_with_other_characters_is_refused(label: str) -> None:
    """A label becomes part of a path and of commands: it has no separator and no blank."""
    with pytest.raises(InvalidWheelFilename, match=r"letters, digits, underscores"):
        split_variant(NAME.format(build="", label=f"-{label}"))


@pytest.mark.parametrize(
    "name",
    ["torch-2.15.0-1-cp312-cp312-any-a-b.whl", "torch.whl", "torch-1-py3-none.whl"],
)
def test_what_is_no_name_of_a_wheel_is_refused(name: str) -> None:
    with pytest.raises(InvalidWheelFilename):
        parse_wheel_name(name)
