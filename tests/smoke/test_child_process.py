"""How a process ended, in words; what the journal holds of a check that did not end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.commands.suite import with_causes
from smoke.engine import child_process, report
from smoke.engine.journal import Journal

if TYPE_CHECKING:
    from pathlib import Path

CHECK = {"id": "device.ready", "title": "It works.", "stands_for": "it did not"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (127, "exit code 127"),
        (-11, "killed by SIGSEGV"),
        (-77, "killed by signal 77"),
        (0xC0000005, "Windows exception 0xC0000005 (access violation)"),
        (-1073741819, "Windows exception 0xC0000005 (access violation)"),
        (0xC0000135, "Windows exception 0xC0000135 (a DLL was not found)"),
    ],
)
def test_an_exit_status_in_words(code: int, words: str) -> None:
    assert child_process.describe_exit(code) == words


def test_the_last_words_of_a_dead_process_are_evidence() -> None:
    finding = child_process.died(-11, "one\n\ntwo\n", step="matmul")
    assert finding.code == "process-died"
    assert finding.evidence == ("killed by SIGSEGV", "while: matmul", "one", "two")


def test_an_error_is_evidence_though_a_stack_follows() -> None:
    message = "ERROR! IPEX needs to work with PyTorch 2.8.*"
    finding = child_process.died(127, f"{message}\n" + "  stack\n" * 20)
    assert finding.code == "process-died"
    assert message in finding.evidence
    (check,) = with_causes([{"id": "identity.import", "finding": finding.as_json()}])
    assert check["finding"]["code"] == "ipex-torch-version-mismatch"


def test_a_check_that_did_not_end_is_found_with_its_last_step(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.running() is None
    journal.write(start={**CHECK, "id": "other"})
    journal.write(step="of the other")
    journal.write(result={**CHECK, "id": "other"})
    assert journal.running() is None
    journal.write(start=CHECK)
    running = journal.running()
    assert running is not None
    assert (running.check, running.step) == (CHECK, None)
    journal.write(step="first operation")
    running = journal.running()
    assert running is not None
    result = report.failed(running, child_process.hung(8, step=running.step))
    assert (result["outcome"], result["finding"]["code"]) == ("failed", "probe-hung")
    assert "while: first operation" in result["finding"]["evidence"]
