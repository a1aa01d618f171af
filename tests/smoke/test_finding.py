"""Errors leave the suite with what the toolkit needs to recognise them; verdicts stay."""

from __future__ import annotations

import json

import pytest

from provision.commands.suite import with_causes
from provision.doctor import diagnose_log
from smoke.engine.finding import CheckFailed, Finding, explain, fail

# Real messages, shortened, as users reported them.
MESSAGES = {
    "fused-op-on-cpu-backend": "Could not run 'torch_ipex::mul_add' with arguments from the 'CPU'"
    " backend. This could be because",
    "driver-missing": "Found no NVIDIA driver on your system. Please check that you have",
    "mixed-devices": "Expected all tensors to be on the same device, but found at least two"
    " devices, xpu:0 and cpu!",
}


def raised(error: Exception) -> BaseException:
    """Return an exception with the traceback that a check's has."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_a_known_text_has_its_code_in_the_completed_report() -> None:
    for code, message in MESSAGES.items():
        finding = explain(raised(RuntimeError(message))).as_json()
        assert finding["code"] == "op-fails"
        (check,) = with_causes([{"id": "fused.attention", "finding": finding}])
        completed = check["finding"]
        assert completed["code"] == code
        assert completed["cause"] != finding["cause"]
        assert completed["remedy"] != finding["remedy"]
        assert completed["symptom"] == finding["symptom"]
        assert completed["evidence"] == finding["evidence"]
        assert message[:40] in completed["symptom"]


def test_a_report_without_the_toolkit_can_be_given_to_the_doctor() -> None:
    code = "driver-missing"
    finding = explain(raised(RuntimeError(MESSAGES[code]))).as_json()
    assert "provision doctor --log" in str(finding["remedy"])
    checks = [{"id": "fused.attention", "finding": finding}]
    report = json.dumps({"checks": checks}, indent=1)
    assert diagnose_log(report)[0].code == code


def test_an_unknown_text_is_the_symptom() -> None:
    finding = explain(ValueError("the moon is full\nand bright"))
    assert (finding.code, finding.symptom) == (
        "op-fails",
        "ValueError: the moon is full",
    )
    assert finding.evidence == ("ValueError: the moon is full", "and bright")
    checks = [{"id": "fused.attention", "finding": finding.as_json()}]
    assert with_causes(checks) == checks


def test_evidence_names_what_led_to_an_error_and_where() -> None:
    origin = raised(OSError("libsycl.so.8: cannot open shared object file"))
    error = RuntimeError("Failed to import the model")
    error.__cause__ = origin
    finding = explain(raised(error))
    assert finding.evidence[:2] == (
        "RuntimeError: Failed to import the model",
        "OSError: libsycl.so.8: cannot open shared object file",
    )
    assert finding.evidence[2].startswith(f'File "{__file__}", line ')
    (check,) = with_causes([{"id": "identity.import", "finding": finding.as_json()}])
    assert check["finding"]["code"] == "oneapi-runtime-missing"
    again = RuntimeError("after another")
    again.__context__ = origin
    assert explain(again).evidence[1] == finding.evidence[1]
    again.__suppress_context__ = True  # raised "from None"
    assert explain(again).evidence == ("RuntimeError: after another",)


def test_a_long_message_keeps_the_line_that_names_the_error() -> None:
    text = (
        "The following operation failed in the TorchScript interpreter.\n" + "  a\n" * 9
    )
    table = "CPU: registered at x.cpp\n" * 9
    error = "RuntimeError: Could not run 'torch_ipex::mul_add' with arguments from the 'CPU' backend"
    finding = explain(RuntimeError(f"{text}{error}\n{table}"))
    assert finding.symptom == error
    assert error in finding.evidence
    assert len(finding.evidence) == 9


def test_a_verdict_keeps_its_finding() -> None:
    with pytest.raises(CheckFailed, match="slow: half") as caught:
        fail("slow", "half the speed", cause="heat", remedy="cool it", evidence=[1.5])
    given = Finding("slow", "half the speed", "heat", "cool it", ("1.5",), "warning")
    assert explain(caught.value) == given  # its level is that of findings.json
