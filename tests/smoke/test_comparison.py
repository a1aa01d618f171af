"""What a release of torch is known to compute wrongly is recorded, and compared from the next on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.core.process import clean_environment, run

ROOT = Path(__file__).parents[2]
# Compares a pooling on a device that computes it as torch before 2.14 does on CUDA.
PROGRAM = f"""
import json, sys
sys.path += [{str(ROOT)!r}, {str(ROOT / "tests" / "smoke")!r}]
from unittest.mock import Mock, patch
import faults, pretend, torch
from smoke.checks.comparison import compare
from smoke.device import devices
from smoke.engine.check import Numbers
from smoke.engine.finding import CheckFailed
from smoke.reference.tables.images import CASES

name = "the_gradient_of_a_padded_mean_is_shifted_in_channels_last_images"
(fault,) = [fault for fault in faults.FAULTS if fault.name == name]

def found(kind, release, made):
    numbers = Numbers(Mock())
    with (
        patch.object(devices, "kind", lambda _device: kind),
        patch.object(torch, "__version__", release),
        fault.apply(),
    ):
        try:
            cases = {{"avg pool": CASES["avg pool"]}}
            compare(pretend.DEVICE, numbers, cases, "convolution", made=made)
        except CheckFailed as failed:
            return failed.finding.symptom
    return list(numbers.values)

print(json.dumps([found(*asked) for asked in json.loads(sys.argv[1])]))
"""
CASES = [
    ("cuda", "2.13.0+cu130", True),
    ("cuda", "2.14.0+cu126", True),
    ("cuda", "2.9.1", False),
    ("xpu", "2.13.0+xpu", True),
    ("cpu", "2.13.0+cpu", True),
]


@pytest.mark.machine
@pytest.mark.slow
def test_the_known_gradient_of_a_pooling_is_compared_unless_on_cuda_before_2_14(
    python: Path,
) -> None:
    words = [python, "-I", "-c", PROGRAM, json.dumps(CASES)]
    done = run(words, env=clean_environment(), timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    older, newer, plain, *others = json.loads(done.stdout)
    known = [name for name in older if name.startswith("known to fail: ")]
    assert "known to fail: avg pool float32 channels-last" in known
    assert {name.split()[-1] for name in known} == {"channels-last"}
    for dtype in ("float32", "float16", "bfloat16"):
        assert f"{dtype}, share of the limit" in older
        assert f"{dtype}, share of the limit" in plain  # the quick suite's inputs
    assert not [name for name in plain if "known to fail" in name]
    for symptom in (newer, *others):
        assert "avg pool" in symptom
        assert "channels-last: relative error" in symptom
