from __future__ import annotations

import pytest

from provision.core.errors import ToolError
from provision.resolver import uv
from provision.spec.model import Target
from tests.small import target_of

NUMPY = {
    "name": "numpy",
    "version": "2.0",
    "wheels": [
        {"url": f"https://x/numpy-2.0-cp311-cp311-{tag}.whl", "hashes": {}}
        for tag in ("win_amd64", "manylinux_2_28_x86_64")
    ],
}


def target() -> Target:
    return target_of("win-64", requirements=("numpy",))


def test_the_cutoff_is_a_moment_that_no_time_zone_moves() -> None:
    argv = uv.compile_argv("uv", target(), {"vendor": "http://127.0.0.1:1/x/"})
    assert argv[argv.index("--exclude-newer") + 1] == "2026-11-01T00:00:00Z"
    assert argv[argv.index("--index") + 1] == "vendor=http://127.0.0.1:1/x/"
    assert argv[argv.index("--python-platform") + 1] == "x86_64-pc-windows-msvc"


def test_no_wheel_and_no_hash_are_reported_by_name() -> None:
    with pytest.raises(ToolError, match=r"no SHA-256 for numpy-2\.0-cp311"):
        uv.locked_wheel(NUMPY, ("the spec",), "linux-64", "3.11")
    with pytest.raises(
        ToolError, match=r"numpy 2\.0 has no wheel for win-64 and Python 3\.12"
    ):
        uv.locked_wheel(NUMPY, ("the spec",), "win-64", "3.12")


def test_the_proxy_is_bypassed_for_this_machine() -> None:
    assert uv.loopback_environment({"no_proxy": "corp.example"}) == {
        "NO_PROXY": "corp.example,127.0.0.1"
    }
    assert uv.loopback_environment({}) == {"NO_PROXY": "127.0.0.1"}
