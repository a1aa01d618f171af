"""The pytest plugin: selects checks, provides their fixtures, writes results to the journal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from smoke.checks import DEVICE, Numbers
from smoke.finding import CheckFailed, Finding, explain
from smoke.report import not_run

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    import torch

    from smoke.checks import Capability
    from smoke.expect import Expect
    from smoke.journal import Journal


NOT_ASKED = "not asked for"


def mark_of(item: pytest.Function) -> pytest.Mark:
    """Return the mark that makes a function a check."""
    mark = item.get_closest_marker("check")
    if mark is None:
        raise pytest.UsageError(f"{item.nodeid} is not marked as a check")
    return mark


def headline(item: pytest.Function) -> dict[str, str]:
    """Return id, title, and the failure in the field that a check stands for."""
    mark = mark_of(item)
    title = (item.function.__doc__ or "").strip().splitlines()[0]
    return {"id": mark.args[0], "title": title, "stands_for": mark.kwargs["stands_for"]}


class Suite:
    """One pytest run over the check files.

    Attributes:
        known: Ids of all collected checks.
    """

    def __init__(
        self,
        expect: Expect,
        journal: Journal,
        around: Callable[[], AbstractContextManager[None]],
        *,
        full: bool,
        only: tuple[str, ...] = (),
    ) -> None:
        self._expect = expect
        self._journal = journal
        self._around = around
        self._full = full
        self._only = frozenset(only)
        self._numbers = Numbers(journal)
        self._error: BaseException | None = None
        self._started = 0.0
        self._lacking: dict[Capability, str] = {}
        self.known: set[str] = set()

    @pytest.fixture
    def expect(self) -> Expect:
        """The content of ``expect.json``."""
        return self._expect

    @pytest.fixture
    def journal(self) -> Journal:
        """The journal, for facts that are not measurements."""
        return self._journal

    @pytest.fixture
    def numbers(self) -> Numbers:
        """The measurements of the running check."""
        return self._numbers

    @pytest.fixture
    def device(self) -> torch.device:
        """The target's device.

        Raises:
            CheckFailed: ``device.ready`` failed: one cause must not show as twenty failures.
        """
        from smoke import device

        cause = self._outcome(DEVICE)
        if cause and self._expect.on_gpu:
            raise CheckFailed(blocked(cause))
        return device.of(self._expect.accelerator)

    def _outcome(self, identifier: str) -> dict[str, Any] | None:
        """Return the finding of an earlier check that failed."""
        results = {result["id"]: result for result in self._journal.results()}
        return results.get(identifier, {}).get("finding")

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Journal which checks are owed, and keep those of them that have not ended yet."""
        reasons = {item: self._reason(mark_of(item)) for item in items}
        heads = {item: headline(item) for item in items}
        self.known = {head["id"] for head in heads.values()}
        self._journal.write(
            owed=[heads[item] for item in items if not reasons[item]],
            not_owed=[
                not_run(heads[item], reason, owed=False)
                for item, reason in reasons.items()
                if reason
            ],
        )
        done = self._journal.ended()
        items[:] = [item for item in items if not reasons[item] and heads[item]["id"] not in done]

    def _reason(self, mark: pytest.Mark) -> str:
        """Return why this run does not owe a check, "" where it does."""
        identifier = mark.args[0]
        if self._only and identifier not in self._only:
            return NOT_ASKED
        if mark.kwargs["full"] and not (self._full or self._only):
            return "only in the full suite"
        return str(mark.kwargs["when"](self._expect))

    def pytest_runtest_setup(self, item: pytest.Function) -> None:
        """Journal the start of a check; skip it where the device lacks what it needs."""
        self._numbers = Numbers(self._journal)
        self._error = None
        self._started = time.monotonic()
        self._journal.write(start=headline(item))
        if reason := self._lacks(mark_of(item).kwargs["needs"]):
            self._journal.write(excused=not_run(headline(item), reason, owed=False))
            pytest.skip(reason)

    def _lacks(self, needs: tuple[Capability, ...]) -> str:
        """Return what the device lacks of the capabilities, "" where it has all.

        Probed only now, when `device.ready` has passed: a probe can hang or end the process, which
        must neither hide that check nor count for another one than this.
        """
        if not needs or (self._expect.on_gpu and self._outcome(DEVICE)):
            return ""
        return next(filter(None, map(self._probe, needs)), "")

    def _probe(self, capability: Capability) -> str:
        from smoke import device

        if capability not in self._lacking:
            self._journal.write(step=f"probe {capability.__name__}")
            try:
                self._lacking[capability] = capability(device.of(self._expect.accelerator))
            except Exception:  # noqa: BLE001 - a broken probe excuses nothing: the check runs
                self._lacking[capability] = ""
        return self._lacking[capability]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Run a check in the worker's context manager, which must not cover collection."""
        with self._around():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Function, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the first error of a check; after its teardown journal the result.

        Only then: a process that dies in a teardown must still leave a check without a result.
        """
        report = yield
        if call.excinfo and self._error is None:
            self._error = call.excinfo.value
        if call.when == "teardown" and headline(item)["id"] not in self._journal.ended():
            self._journal.write(result=self._result(item))
        return report

    def _result(self, item: pytest.Function) -> dict[str, Any]:
        finding = explain(self._error).as_json() if self._error else None
        outcome = "failed" if finding else "passed"
        if finding and finding["level"] == "error" and mark_of(item).kwargs["advisory"]:
            outcome, finding["level"] = "warned", "warning"
        return {
            **headline(item),
            "outcome": outcome,
            "seconds": round(time.monotonic() - self._started, 3),
            "numbers": self._numbers.values,
            "finding": finding,
        }

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Journal that the suite is broken where a check file can't be imported."""
        if report.failed:
            self._journal.write(broken=f"{report.nodeid}: {report.longreprtext[-500:]}")


def blocked(cause: dict[str, Any]) -> Finding:
    """Return the finding of a check that could not run because the device does not work.

    It does not repeat the code or the remedy of that failure: the toolkit may replace both.
    """
    return Finding(
        "blocked",
        "not run: the device does not work",
        f"{DEVICE} failed first: {cause['symptom']}",
        f"follow the remedy of {DEVICE}, then run the checks again",
        (f"{DEVICE}: {cause['symptom']}",),
        level="note",
    )
