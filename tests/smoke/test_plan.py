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
ON_BOTH = Plan(full=True, only=frozenset(), devices=(0, 1))


def result(identifier: str, outcome: str = "passed") -> dict[str, Any]:
    return {"id": identifier, "outcome": outcome}


def head(declared: Declared) -> dict[str, str]:
    return {"id": declared.id, "title": declared.title}


def told(journal: Journal, plan: Plan) -> dict[str, tuple[bool, str]]:
    found = {}
    for entry in missing(journal, [QUICK, FULL], plan):
        found[entry["id"]] = entry["required"], entry["reason"]
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def test_a_worker_that_says_nothing_owes_everything(journal: Journal) -> None:
    assert told(journal, ALL) == {
        "a.quick": (True, NOT_COLLECTED),
        "a.full": (True, NOT_COLLECTED),
    }


def test_without_torch_the_rest_is_owed_because_of_that(journal: Journal) -> None:
    failed = result(IMPORT["id"], "failed")
    journal.write(result=failed)
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
    only = frozenset({"a.full"})
    plan = Plan(full=False, only=only, devices=(0,))
    assert told(journal, plan) == {
        "a.full": (True, NOT_COLLECTED),
        "a.quick": (False, NOT_ASKED),
    }


def test_each_device_owes_the_checks_of_devices(journal: Journal) -> None:
    journal.write(required=[head(QUICK), head(FULL)], not_required=[])
    journal.write(result=result("a.quick"))
    journal.write(result=result("a.full"))
    assert told(journal, ON_BOTH) == {"a.quick@1": (True, NOT_COLLECTED)}


def test_a_reason_is_not_repeated_for_each_device(journal: Journal) -> None:
    lack = {"title": "t", "required": False, "reason": "no wings"}
    on_first = lack | {"id": "a.quick"}
    on_second = lack | {"id": "a.quick@1"}
    journal.write(required=[head(FULL)], not_required=[on_first, on_second])
    journal.write(result=result("a.full"))
    assert told(journal, ON_BOTH) == {"a.quick": (False, "no wings")}
    another = on_second | {"reason": "no legs"}
    journal.write(not_required=[another])
    assert told(journal, ON_BOTH)["a.quick@1"] == (False, "no legs")


def test_every_check_is_declared() -> None:
    checks = {}
    for check in declared(check_files()):
        assert check.title.endswith(".")
        checks[check.id] = check
    assert checks.keys() == check_ids() - {IMPORT["id"]}
    ready = checks["device.ready"]
    assert ready.on(0) == "device.ready"
    assert ready.on(1) == "device.ready@1"
