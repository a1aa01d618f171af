"""The failures that the project started from are known in every form in which people paste them."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.findings import Level
from provision.doctor import diagnose_evidence, diagnose_log

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FAILURES = tomllib.loads(
    Path(__file__).with_name("mission.toml").read_text(encoding="utf-8")
)["failure"]
IPEX_IS_MISSING = "ModuleNotFoundError: No module named 'intel_extension_for_pytorch'"


def _forms(failure: dict[str, Any]) -> Iterator[str]:
    line, name = failure["line"], failure.get("exception", "")
    yield line
    yield from failure.get("forms", ())
    if not name:
        return
    yield name + line
    yield "错误\uff1a" + line
    yield f"Fehler: {line}"
    yield json.dumps({"code": 500, "msg": line})
    yield f"2026-01-01 12:00:00,123 - ERROR - {name}{line}"
    if "frames" in failure:
        traced = f"Traceback (most recent call last):{failure['frames']}{name}{line}"
        yield traced
        yield "\n".join(f"> {text}" for text in traced.split("\n"))


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure["code"])
def test_a_failure_of_the_mission_is_an_error_that_names_target_and_command(
    failure: dict[str, Any],
) -> None:
    for form in _forms(failure):
        findings = diagnose_log(form)
        accusing = [finding.code for finding in findings if finding.bad]
        assert accusing == [failure["code"]], (form, findings)
        for words in failure["says"]:
            assert words in findings[0].remedy, (form, findings[0].remedy)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure["code"])
def test_the_page_of_a_failure_has_what_people_paste_as_its_title(
    failure: dict[str, Any],
) -> None:
    page = f"errors/{failure['page']}.md"
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    begins = text.removeprefix("# ")[:17].lower()
    assert any(begins in form.lower() for form in _forms(failure))
    assert f"- {page}" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_nobody_is_told_to_add_ipex() -> None:
    for context in ("", "\nNVIDIA GeForce RTX 3090", "\nIntel(R) Arc A770"):
        for finding in diagnose_log(IPEX_IS_MISSING + context):
            assert "provision add" not in finding.remedy
            assert "pip install intel" not in finding.remedy


def test_what_accelerate_mended_is_not_blamed_on_its_age() -> None:
    offload = FAILURES[3]
    error = f"Traceback (most recent call last):{offload['frames']}KeyError: 'xpu:0'"
    for mended in ("accelerate==1.8.1", "- `Accelerate` version: 1.10.0"):
        (finding,) = diagnose_log(f"{mended}\n{error}")
        assert finding.code == "not-recognised", mended
    for old in (
        "accelerate==1.5.2",
        "accelerate  0.34.2",
        "pip install accelerate>=1.6",
    ):
        (finding, *_) = diagnose_log(f"{old}\n{error}")
        assert finding.code == offload["code"], old


def test_a_machine_with_an_nvidia_gpu_is_sent_to_no_target_of_intel() -> None:
    frames = FAILURES[3]["frames"]
    (finding, *_) = diagnose_log(f"NVIDIA-SMI 550.120\n{frames}KeyError: 'cuda:0'")
    assert finding.code == "accelerate-offload-keyerror"
    assert finding.remedy.startswith("Run `uv pip install --no-deps accelerate==1.6.0`")
    assert not {"arc", "max"} & set(re.findall(r"\w+", finding.remedy))


def test_an_optimizer_is_accused_only_where_the_log_shows_it() -> None:
    (finding,) = diagnose_log(FAILURES[1]["line"])
    assert "optimizer" not in finding.symptom + finding.cause


def test_a_smoke_check_is_not_told_to_change_its_program() -> None:
    for failure in FAILURES[:2]:
        evidence = [failure["exception"] + failure["line"]]
        finding = diagnose_evidence(evidence)
        assert finding is not None
        assert finding.code == failure["code"]
        assert "move" not in finding.remedy.lower()


def test_words_of_these_failures_alone_accuse_nothing() -> None:
    calm = [
        "torch_ipex::mul_add has a kernel for XPU\nepoch 1 step 10 loss 0.4",
        "UserWarning: a slow tokenizer is used on xpu\nepoch 1 step 10 loss 0.4",
        "using xpu:0\nwhy: the CPU is used for loading\ndone",
        "Overriding a previously registered kernel\nstep 1 loss 0.4",
    ]
    for text in calm:
        levels = {finding.level for finding in diagnose_log(text)}
        assert levels <= {Level.NOTE}, text
