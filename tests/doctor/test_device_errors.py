"""Diagnosis of what devices, drivers and runtimes report, and of harmless look-alikes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from provision.doctor import diagnose_evidence, diagnose_log

DATA = tomllib.loads((Path(__file__).parent / "device_errors.toml").read_text(encoding="utf-8"))
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
