"""Which GPUs run which code: CUDA's rules of compatibility, on the architectures of real wheels."""

from __future__ import annotations

import pytest

from smoke.device.cuda_code import runs

CU128 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
CU126 = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.mark.parametrize(
    ("code", "capability", "fits"),
    [
        ("sm_86", "sm_86", True),
        ("sm_86", "sm_89", True),  # later in the generation: Ada
        ("sm_86", "sm_80", False),
        ("sm_86", "sm_90", False),
        ("sm_80", "sm_87", False),  # Orin runs nothing that was made for cards
        ("sm_87", "sm_89", False),
        ("compute_90", "sm_120", True),  # PTX, for a GPU newer than the wheel
        ("compute_90", "sm_86", False),
        ("sm_90a", "sm_90", True),
        ("compute_90a", "sm_100", False),
        ("sm_100f", "sm_103", True),
        ("sm_100f", "sm_120", False),
        ("sm_101", "sm_110", True),  # one chip, renamed
        ("sm_100", "sm_101", False),
        ("gfx942", "sm_90", False),
    ],
)
def test_code_runs_on_a_gpu_or_not(code: str, capability: str, fits: bool) -> None:
    assert runs(code, capability) is fits


@pytest.mark.parametrize(
    ("built", "capability", "fits"),
    [
        (CU128, "sm_121", True),  # GB10
        (CU128, "sm_130", True),  # newer than every entry: through PTX
        (CU128, "sm_70", False),  # V100 with a wheel of CUDA 13
        (CU126, "sm_70", True),
        (CU126, "sm_120", False),  # RTX 5090 with a wheel without code or PTX for it
    ],
)
def test_a_wheel_runs_on_a_gpu_or_not(
    built: list[str], capability: str, fits: bool
) -> None:
    assert any(runs(code, capability) for code in built) is fits
