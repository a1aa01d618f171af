"""Diagnosis of what devices, drivers and runtimes report, and of harmless look-alikes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from provision.doctor import diagnose_evidence, diagnose_log

DATA = tomllib.loads(
    (Path(__file__).parent / "device_errors.toml").read_text(encoding="utf-8")
)
ERRORS, DECOYS = DATA["error"], DATA["decoy"]
# What leads to the error in a program, and what its launcher prints afterwards.
ABOVE = """\
INFO 11-21 10:00:00 loading the model
Traceback (most recent call last):
  File "/w/train.py", line 41, in <module>
    loss = model(x.to(device)).sum()
  File "/w/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1775, in _call_impl
    return self._call_impl(*args, **kwargs)
"""
BELOW = "\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"


def _line(case: dict[str, str]) -> str:
    return case.get("line", f"RuntimeError: {case['text']}")


def _log(case: dict[str, str]) -> str:
    return _line(case) if case.get("output") else ABOVE + _line(case) + BELOW


@pytest.mark.parametrize("case", ERRORS, ids=[case["text"] for case in ERRORS])
def test_a_log_names_the_error_of_a_device(case: dict[str, str]) -> None:
    assert all(part in _line(case) for part in case["text"].split("..."))
    (first, *_) = diagnose_log(_log(case))
    assert (first.code, first.level) == (case["code"], case["level"])
    assert any(line.strip() in first.evidence[0] for line in _line(case).splitlines())


@pytest.mark.parametrize("case", ERRORS, ids=[case["text"] for case in ERRORS])
def test_the_evidence_of_a_smoke_check_names_it_too(case: dict[str, str]) -> None:
    found = diagnose_evidence(_log(case).splitlines())
    assert (found.code if found else None) == case.get("evidence")


def test_only_harmless_texts_and_faults_of_a_program_are_no_evidence() -> None:
    assert {case["level"] for case in ERRORS if "evidence" not in case} == {"note"}


@pytest.mark.parametrize("case", DECOYS, ids=[case["why"] for case in DECOYS])
def test_a_harmless_look_alike_accuses_nothing(case: dict[str, str]) -> None:
    assert not [finding for finding in diagnose_log(case["text"]) if finding.bad]


@pytest.mark.parametrize(
    "after",
    [
        "Exception ignored in: <function Pool.__del__ at 0x7f0c2c1e5bc0>",
        "please retry later",
        "Caught RuntimeError in replica 0 on device 0.",
    ],
)
def test_what_follows_an_error_is_not_always_its_end(after: str) -> None:
    lost = "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)"
    (first, *_) = diagnose_log(f"{ABOVE}{lost}\n{after}\n")
    assert (first.code, first.level) == ("device-lost", "error")


def test_the_cause_of_a_hidden_card_is_the_setting_that_hides_it() -> None:
    hidden = "WARNING: Resizable BAR not detected for device 0000:03:00.0\n"
    (first, *_) = diagnose_log(
        f"{hidden}{ABOVE}RuntimeError: No XPU devices are available.\n"
    )
    assert (first.code, first.level) == ("resizable-bar-off", "error")


def test_the_device_is_not_the_cause_of_what_failed_before_it_was_lost() -> None:
    """A note on the last error does not make an earlier, caught one its cause."""
    caught = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'triton'\n"
    found = diagnose_log(
        f"{caught}\n{ABOVE}RuntimeError: CUDA error: unspecified launch failure\n"
    )
    assert found[0].code == "kernel-fault"
    assert "triton-missing-or-incompatible" in {finding.code for finding in found}
    assert not any(finding.bad for finding in found)
