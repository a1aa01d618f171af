"""Operators that the CPU computes for a device are named, and judged by torch's own list."""

from __future__ import annotations

from smoke.engine import on_cpu

# How many operators the branch release/2.N of torch-xpu-ops lists.
COUNTS = {
    6: 39,
    7: 33,
    8: 28,
    9: 31,
    10: 34,
    11: 32,
    12: 30,
    13: 29,
    14: 29,
}


def test_each_release_has_the_list_of_its_branch() -> None:
    for minor, count in COUNTS.items():
        names, certain = on_cpu.listed("xpu", f"2.{minor}.1+xpu")
        assert (len(names), certain) == (count, True), minor
    for version, judged in {
        "2.10.0+xpu": ([], True),
        "2.11.0+xpu": (["dot"], True),
        # Built between releases, not read yet, or older than what was read: nobody is accused.
        "2.14.0.dev20260701+xpu": (["dot"], False),
        "2.9.0a0+git0fabc3b": ([], False),
        "2.15.0+xpu": (["dot"], False),
        "2.5.1+cxx11.abi": (["dot", "linalg_qr.out"], False),
    }.items():
        assert on_cpu.unlisted({"dot", "linalg_qr.out"}, "xpu", version) == judged
    assert on_cpu.unlisted({"linalg_svd", "tril"}, "mps", "2.13.0") == (["tril"], False)


def test_torch_names_the_operators_in_each_of_its_wordings() -> None:
    printed = """\
x.py:3: UserWarning: The operator 'aten::_linalg_svd.U on the XPU backend is falling back to \
run on the CPU. (Triggered internally at /xpu/XPUFallback.template:41.)
[W1124 XPUFallback.cpp:60] Warning: The operator 'aten::dot on the XPU backend is falling back \
to run on the CPU. (function xpu_fallback_impl)
UserWarning: The operator 'aten::col2im' is not currently supported on the MPS backend and will \
fall back to run on the CPU. This may have performance implications.
UserWarning: The operator 'tril' registered to be forced to fallback to CPU."""
    assert on_cpu.names_in(printed) == {"_linalg_svd.U", "dot", "col2im"}
