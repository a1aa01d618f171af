"""Texts with a known cause are recognised; others keep the line that says what happened."""

from __future__ import annotations

import pytest

from smoke.finding import KNOWN, CheckFailed, Finding, explain, fail, recognise

# Real messages, shortened, as users reported them.
MESSAGES = {
    "ipex-torch-version-mismatch": "ERROR! Intel® Extension for PyTorch* needs to work with PyTorch"
    " 2.8.*, but PyTorch 2.13.0 is found.",
    "fused-op-on-cpu-backend": "Could not run 'torch_ipex::mul_add' with arguments from the 'CPU'"
    " backend. This could be because",
    "cpu-build-of-torch-installed": "Torch not compiled with XPU enabled",
    "driver-missing": "Found no NVIDIA driver on your system. Please check that you have",
    "driver-too-old": "could not make an engine with allocator",
    "oneapi-runtime-missing": "libsycl.so.7: cannot open shared object file: No such file",
    "missing-dll-windows": "DLL load failed while importing _C: The specified module",
    "mixed-devices": "Expected all tensors to be on the same device, but found at least two"
    " devices, xpu:0 and cpu!",
    "out-of-memory": "XPU out of memory. Tried to allocate 2.00 GiB",
    "unsupported-gpu-architecture": "CUDA error: no kernel image is available for execution",
    "fp64-unsupported": "Required aspect fp64 is not supported on the device",
}


@pytest.mark.parametrize(("code", "message"), MESSAGES.items())
def test_a_known_text_has_its_code(code: str, message: str) -> None:
    finding = explain(RuntimeError(message))
    assert finding.code == code
    assert finding.cause
    assert finding.remedy
    assert message[:40] in finding.symptom


def test_every_code_is_kebab_case() -> None:
    codes = [code for _, code, _, _ in KNOWN]
    assert all(code == code.lower() and " " not in code for code in codes)


def test_an_unknown_text_is_the_symptom() -> None:
    finding = explain(ValueError("the moon is full\nand bright"))
    assert (finding.code, finding.symptom) == ("op-fails", "ValueError: the moon is full")
    assert finding.evidence == ("ValueError: the moon is full", "and bright")
    assert recognise("the moon is full") is None


def test_an_error_without_words_is_told_by_its_type() -> None:
    assert explain(KeyError()).symptom == "KeyError:"


def test_torchscript_says_it_at_the_end() -> None:
    text = (
        "The following operation failed in the TorchScript interpreter.\n"
        "Traceback of TorchScript (most recent call last):\n  File x\n"
        "RuntimeError: sizes differ"
    )
    assert explain(RuntimeError(text)).symptom == "RuntimeError: sizes differ"


def test_a_verdict_keeps_its_finding() -> None:
    with pytest.raises(CheckFailed, match="slow: half") as caught:
        fail("slow", "half the speed", cause="heat", remedy="cool it", evidence=[1.5])
    assert explain(caught.value) == Finding("slow", "half the speed", "heat", "cool it", ("1.5",))
