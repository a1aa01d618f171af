"""What a run requires, and why each check without a result has none."""

from collections.abc import Sequence
from dataclasses import dataclass

from smoke.engine.check import IMPORT
from smoke.engine.check_files import Declared
from smoke.engine.expect import Expect
from smoke.engine.journal import Entry, Journal

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
        area = identifier.partition(".")[0]
        if self.only:
            return "" if self.only & {identifier, area} else NOT_ASKED
        if full and not self.full:
            return ONLY_IN_FULL
        return REUSED if identifier in self.reused else ""


def reused(expect: Expect) -> frozenset[str]:
    """Return the checks that passed in an earlier run that is still valid.

    The caller vouches that nothing which they use has changed: host, driver, stack, suite, spec.
    What reads the metadata of the environment, and imports what is new in it, is always run.
    """
    passed = expect.earlier["reused"] if expect.earlier else []
    kept = set()
    for name in passed:
        if name == IMPORT["id"] or not name.startswith("identity."):
            kept.add(name)
    return frozenset(kept)


def not_run(head: dict[str, str], reason: str, *, required: bool) -> Entry:
    """Return the report's entry of a check without a result."""
    return {
        "id": head["id"],
        "title": head["title"],
        "required": required,
        "reason": reason,
    }


def missing(journal: Journal, declared: Sequence[Declared], plan: Plan) -> list[Entry]:
    """Return the checks without a result, those that are required first.

    A check is required where a worker said so, and where no worker said anything of it: only then is a
    run complete because of what it did, and not because of what it forgot.
    """
    entries = _named_by_workers(journal)
    outcomes = journal.outcomes()
    reason = NO_TORCH if outcomes.get(IMPORT["id"]) == "failed" else NOT_COLLECTED
    for check in declared:
        left_out = plan.leaves_out(check.id, full=check.full)
        for index in plan.devices:
            head = {"id": check.on(index), "title": check.title}
            entry = not_run(head, left_out or reason, required=not left_out)
            entries.setdefault(entry["id"], entry)
    for identifier in outcomes:
        entries.pop(identifier, None)
    required, others = [], []
    for entry in entries.values():
        if entry["required"]:
            required.append(entry)
        elif not _is_repeated(entry, entries):
            others.append(entry)
    return required + others


def _named_by_workers(journal: Journal) -> dict[str, Entry]:
    """Return an entry for each check that the workers named; a later word replaces an earlier one."""
    entries: dict[str, Entry] = {}
    for event in journal.events():
        for head in event.get("required", ()):
            entries.setdefault(head["id"], not_run(head, CUT_SHORT, required=True))
        for kind in ("not_required", "excused"):
            for entry in event.get(kind, ()):
                entries[entry["id"]] = entry
    return entries


def _is_repeated(entry: Entry, entries: dict[str, Entry]) -> bool:
    """Return whether a further device lacks a check for the reason that the first lacks it."""
    name, _, index = entry["id"].partition("@")
    first = entries.get(name, {})
    return bool(index) and first.get("reason") == entry["reason"]
