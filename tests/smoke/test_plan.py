"""What a run requires and has not done is listed with its reason, and never green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from smoke.engine.check import IMPORT
from smoke.engine.check_files import Declared, check_files, declared
from smoke.engine.journal import Journal
from smoke.engine.plan import (
    CUT_SHORT,
    NO_TORCH,
    NOT_ASKED,
    NOT_COLLECTED,
    ONLY_IN_FULL,
    Plan,
    missing,
)
from tests.smoke.faults import check_ids

if TYPE_CHECKING:
    from pathlib import Path

QUICK = Declared("a.quick", "Quick.", full=False, on_device=True)
FULL = Declared("a.full", "Full.", full=True, on_device=False)
ALL = Plan(full=True, only=frozenset(), devices=(0,))


def result(identifier: str, outcome: str = "passed") -> dict[str, Any]:
    return {"id": identifier, "outcome": outcome}


def head(declared: Declared) -> dict[str, str]:
    return {"id": declared.id, "title": declared.title}


def told(journal: Journal, plan: Plan) -> dict[str, tuple[bool, str]]:
    entries = missing(journal, [QUICK, FULL], plan)
    return {entry["id"]: (entry["required"], entry["reason"]) for entry in entries}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def test_a_worker_that_says_nothing_owes_everything(journal: Journal) -> None:
    assert told(journal, ALL) == {
        "a.quick": (True, NOT_COLLECTED),
        "a.full": (True, NOT_COLLECTED),
    }


def test_without_torch_the_rest_is_owed_because_of_that(journal: Journal) -> None:
    journal.write(result=result(IMPORT["id"], "failed"))
    quick = Plan(full=False, only=frozenset(), devices=(0,))
    assert told(journal, quick) == {
        "a.quick": (True, NO_TORCH),
        "a.full": (False, ONLY_IN_FULL),
    }


def test_a_worker_that_runs_fewer_than_it_collected_is_told(journal: Journal) -> None:
    journal.write(required=[head(QUICK), head(FULL)], not_required=[])
    journal.write(result=result("a.quick"))
    assert told(journal, ALL) == {"a.full": (True, CUT_SHORT)}


def test_what_was_not_asked_for_is_not_owed(journal: Journal) -> None:
    plan = Plan(full=False, only=frozenset({"a.full"}), devices=(0,))
    assert told(journal, plan) == {
        "a.full": (True, NOT_COLLECTED),
        "a.quick": (False, NOT_ASKED),
    }


def test_each_device_owes_the_checks_of_devices(journal: Journal) -> None:
    journal.write(required=[head(QUICK), head(FULL)], not_required=[])
    journal.write(result=result("a.quick"))
    journal.write(result=result("a.full"))
    plan = Plan(full=True, only=frozenset(), devices=(0, 1))
    assert told(journal, plan) == {"a.quick@1": (True, NOT_COLLECTED)}


def test_a_reason_is_not_repeated_for_each_device(journal: Journal) -> None:
    lacks = [
        {"id": name, "title": "t", "required": False, "reason": "no wings"}
        for name in ("a.quick", "a.quick@1")
    ]
    journal.write(required=[head(FULL)], not_required=lacks)
    journal.write(result=result("a.full"))
    assert told(journal, Plan(full=True, only=frozenset(), devices=(0, 1))) == {
        "a.quick": (False, "no wings")
    }


def test_every_check_is_declared() -> None:
    found = declared(check_files())
    assert {each.id for each in found} == check_ids() - {IMPORT["id"]}
    assert all(each.title.endswith(".") for each in found)
    ready = next(each for each in found if each.id == "device.ready")
    assert ready.on(0) == "device.ready"
    assert ready.on(1) == "device.ready@1"
