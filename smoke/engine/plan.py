"""What a run requires, and why each check without a result has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoke.engine.check import IMPORT

if TYPE_CHECKING:
    from smoke.engine.check_files import Declared
    from smoke.engine.expect import Expect
    from smoke.engine.journal import Journal

ONLY_IN_FULL = "only in the full suite"
NOT_ASKED = "not asked for"
CUT_SHORT = "the run ended before it"
NOT_COLLECTED = "its file was not collected"
REUSED = "reused"
NO_TORCH = f"torch can't be imported: see {IMPORT['id']}"


@dataclass(frozen=True)
class Plan:
    """What one run is to check.

    Attributes:
        full: All checks, not only the quick ones.
        only: These checks, or those of these areas, only; all where it is empty.
        devices: Numbers of the devices; the first also gets the checks that are for no device.
        reused: These have an earlier result that is still valid.
    """

    full: bool
    only: frozenset[str]
    devices: tuple[int, ...]
    reused: frozenset[str] = frozenset()

    def leaves_out(self, identifier: str, *, full: bool) -> str:
        """Return why a check is no part of the run, whatever the target is; "" where it is one."""
        if self.only:
            asked = {identifier, identifier.partition(".")[0]} & self.only
            return "" if asked else NOT_ASKED
        if full and not self.full:
            return ONLY_IN_FULL
        return REUSED if identifier in self.reused else ""


def reused(expect: Expect) -> frozenset[str]:
    """Return the checks that passed in an earlier run that is still valid.

    The caller vouches that nothing which they use has changed: host, driver, stack, suite, spec.
    What reads the metadata of the environment, and imports what is new in it, is always run.
    """
    passed = expect.earlier["reused"] if expect.earlier else []
    kept = (n for n in passed if n == IMPORT["id"] or not n.startswith("identity."))
    return frozenset(kept)


def not_run(head: dict[str, str], reason: str, *, required: bool) -> dict[str, Any]:
    """Return the report's entry of a check without a result."""
    return {
        "id": head["id"],
        "title": head["title"],
        "required": required,
        "reason": reason,
    }


def missing(
    journal: Journal, declared: Sequence[Declared], plan: Plan
) -> list[dict[str, Any]]:
    """Return the checks without a result, those that are required first.

    A check is required where a worker said so, and where no worker said anything of it: only then is a
    run complete because of what it did, and not because of what it forgot.
    """
    found: dict[str, dict[str, Any]] = {}
    for event in journal.events():  # a later word replaces an earlier one
        for head in event.get("required", ()):
            found.setdefault(head["id"], not_run(head, CUT_SHORT, required=True))
        for entry in (*event.get("not_required", ()), *event.get("excused", ())):
            found[entry["id"]] = entry
    outcomes = {result["id"]: result["outcome"] for result in journal.results()}
    reason = NO_TORCH if outcomes.get(IMPORT["id"]) == "failed" else NOT_COLLECTED
    for each in declared:
        left_out = plan.leaves_out(each.id, full=each.full)
        for index in plan.devices if each.on_device else plan.devices[:1]:
            head = {"id": each.on(index), "title": each.title}
            found.setdefault(
                head["id"], not_run(head, left_out or reason, required=not left_out)
            )
    found = {name: entry for name, entry in found.items() if name not in outcomes}
    kept = [entry for entry in found.values() if not _is_repeated(entry, found)]
    return sorted(kept, key=lambda entry: not entry["required"])


def _is_repeated(entry: dict[str, Any], found: dict[str, dict[str, Any]]) -> bool:
    """Return whether a further device lacks a check for the reason that the first lacks it."""
    name, _, index = entry["id"].partition("@")
    same = found.get(name, {}).get("reason") == entry["reason"]
    return bool(index) and same and not entry["required"]
