"""Lines of healthy stacks, as their sources show them, and lines that are findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from smoke.checks import harmless

if TYPE_CHECKING:
    from pathlib import Path

SYSMAN = """\
/env/torch/xpu/__init__.py:100: UserWarning: Can't initialize Level Zero Sysman
  return _enum_zes_device_infos(visible_mask)"""
INTEGRATED = """\
/env/torch/xpu/__init__.py:1: UserWarning: The detected GPU (Intel(R) UHD Graphics 770) is not \
officially supported by PyTorch XPU. Running workloads on this device may result in unexpected \
behavior.
For stable and fully supported execution, please use GPUs based on Intel Arc (Alchemist) series
Refer to the hardware prerequisites for more information: (Triggered internally at Module.cpp:1.)
  torch._C._xpu_init()"""
GB10 = """\
/env/torch/cuda/__init__.py:283: UserWarning:
    Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.
    Minimum and Maximum cuda capability supported by this version of PyTorch is
    (8.0) - (12.0)
  warnings.warn("""
NEW_CAPABILITY = """\
/env/torch/cuda/__init__.py:404: UserWarning: Found GPU0 NVIDIA GB10 which is of compute \
capability (CC) 12.1.
The following list shows the CCs this version of PyTorch was built for and the hardware CCs it \
supports:
- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}
- 12.0 which supports hardware CC >=12.0,<13.0
Your installed torch==2.13.0 does not include kernels for this GPU. Reinstall the same version
  For CUDA 13.0 use pip install torch==2.13.0
  warnings.warn("\\n".join(lines), stacklevel=2)"""
IPEX = """\
[W OperatorEntry.cpp:153] Warning: Warning only once for all operators,  other operators may also \
be overrided.
  Overriding a previously registered kernel for the same operator and the same dispatch key
  operator: aten::geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)
    registered at /build/pytorch/build/aten/src/ATen/RegisterSchema.cpp:6
  dispatch key: XPU
  previous kernel: no debug info
       new kernel: registered at /build/ipex/csrc/gpu/csrc/aten/generated/ATen/RegisterXPU.cpp:1 \
(function operator())"""
TORCHVISION = """\
/env/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: libjpeg.so.8
  warn("""
OTHERS = """\
SysMan support is unavailable on this system. Please check your level zero driver installation.
UserWarning: Aten Op fallback from XPU to CPU happends.
W1121 12:00:00 torch/_inductor/utils.py:1] Not enough SMs to use max_autotune_gemm mode"""


@pytest.mark.parametrize(
    "text",
    [SYSMAN, INTEGRATED, GB10, NEW_CAPABILITY, IPEX, TORCHVISION, OTHERS],
    ids=["sysman", "integrated", "gb10", "capability", "ipex", "torchvision", "others"],
)
def test_a_healthy_stack_prints_nothing_unknown(text: str) -> None:
    found, unknown = harmless.sort_lines(text)
    assert unknown == []
    assert len(found) == len(text.splitlines())


@pytest.mark.parametrize(
    "line",
    [
        # False green 5: the operator is missing on the device.
        "There was no kernel registered at all for dispatch key: XPU",
        "no kernel registered at all for dispatch key: XPU",
        "UserWarning: Can't initialize NVML",
        "[W] level_zero: firmware 1.2 is not known to this loader",
        "  an indented line that no warning is above of",
        "previous kernel: of something else",
    ],
)
def test_a_finding_is_not_harmless(line: str) -> None:
    assert harmless.sort_lines(line) == ([], [line])


def test_only_one_line_of_source_belongs_to_a_warning() -> None:
    found, unknown = harmless.sort_lines(SYSMAN + "\n  the device is lost")
    assert (len(found), unknown) == (2, ["  the device is lost"])


@pytest.mark.parametrize(
    ("driver", "unknown"), [("i915", False), ("xe", True), (None, True)], ids=str
)
def test_a_small_bar_slows_copies_with_i915_and_hides_the_card_with_xe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str | None, unknown: bool
) -> None:
    folder = tmp_path / "0000:03:00.0"
    folder.mkdir()
    if driver:
        (tmp_path / driver).mkdir()
        (folder / "driver").symlink_to(tmp_path / driver)
    monkeypatch.setattr(harmless, "PCI_DEVICES", str(tmp_path))
    line = "WARNING: Resizable BAR not detected for device 0000:03:00.0"
    assert harmless.sort_lines(line) == (([], [line]) if unknown else ([line], []))


def test_every_kind_of_line_has_a_reason_and_a_source() -> None:
    assert all(
        each["reason"] and each["pattern"] and each["source"]
        for each in harmless.HARMLESS
    )
