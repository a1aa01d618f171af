"""The pytest plugin: selects checks, provides their fixtures, writes results to the journal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from smoke.checks import DEVICE, Numbers
from smoke.finding import CheckFailed, Finding, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

    import torch

    from smoke.expect import Expect
    from smoke.journal import Journal


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
        unfit: Ids that were asked for by name and do not apply to the target.
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
        self.known: set[str] = set()
        self.unfit: set[str] = set()

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
        """Keep the checks that apply and have no result yet."""
        done = {result["id"] for result in self._journal.results()}
        marks = {item: mark_of(item) for item in items}
        self.known = {mark.args[0] for mark in marks.values()}
        chosen = {item: mark for item, mark in marks.items() if self._chosen(mark)}
        fit = {item for item, mark in chosen.items() if mark.kwargs["when"](self._expect)}
        self.unfit = {mark.args[0] for item, mark in chosen.items() if item not in fit} & self._only
        items[:] = [item for item in items if item in fit and marks[item].args[0] not in done]

    def _chosen(self, mark: pytest.Mark) -> bool:
        if self._only:
            return mark.args[0] in self._only
        return self._full or not mark.kwargs["full"]

    def pytest_runtest_setup(self, item: pytest.Function) -> None:
        """Journal the start of a check."""
        self._numbers = Numbers(self._journal)
        self._error = None
        self._started = time.monotonic()
        self._journal.write(start=headline(item))

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
        if call.when == "teardown":
            self._journal.write(result=self._result(item))
        return report

    def _result(self, item: pytest.Function) -> dict[str, Any]:
        finding = explain(self._error).as_json() if self._error else None
        return {
            **headline(item),
            "outcome": "failed" if finding else "passed",
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
