from __future__ import annotations

from provision.core.platforms import PLATFORMS
from provision.lockfile.tags import best_wheel


def test_a_wheel_fits_its_platform_only() -> None:
    for name, platform, fits in (
        ("a-1-py3-none-any.whl", "linux-64", True),
        ("a-1-cp39-abi3-win_amd64.whl", "win-64", True),
        ("a-1-cp312-abi3-win_amd64.whl", "win-64", False),
        ("a-1-cp311-cp311-win32.whl", "win-64", False),
        ("a-1-cp311-cp311-linux_x86_64.whl", "win-64", False),
        ("a-1-cp311-cp311-manylinux2014_x86_64.whl", "linux-64", True),
        ("a-1-cp311-cp311-manylinux_2_28_aarch64.whl", "linux-64", False),
        ("a-1-cp311-cp311-musllinux_1_2_x86_64.whl", "linux-64", False),
        ("a-1-cp310-cp310-manylinux2014_x86_64.whl", "linux-64", False),
    ):
        assert (best_wheel([name], platform, "3.11") == name) is fits, name


def test_a_spec_may_ask_for_a_newer_glibc_than_the_tags_of_all() -> None:
    name = "a-1-cp38-abi3-manylinux_2_34_x86_64.whl"
    assert best_wheel([name], "linux-64", "3.12") is None
    assert best_wheel([name], "linux-64", "3.12", "2.33") is None
    assert best_wheel([name], "linux-64", "3.12", "2.34") == name
    older = "a-1-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert best_wheel([older, name], "linux-64", "3.12", "2.34") == name
    platform = PLATFORMS["linux-aarch64"].with_glibc("2.34")
    assert platform.uv == "aarch64-manylinux_2_34"
    assert platform.tags[0] == "manylinux_2_34_aarch64"
    assert PLATFORMS["linux-64"].uv == "x86_64-manylinux_2_28"


def test_tags_do_not_depend_on_the_machine() -> None:
    own = "a-1-cp311-cp311-win_amd64.whl"
    others = ["a-1-cp311-abi3-win_amd64.whl", own, "a-1-py3-none-any.whl"]
    assert best_wheel(others, "win-64", "3.11") == own
    assert PLATFORMS["linux-64"].tags[0] == "manylinux_2_28_x86_64"
    assert {"manylinux2014_x86_64", "manylinux1_x86_64"} <= set(
        PLATFORMS["linux-64"].tags
    )
