"""The pytest plugin: selects checks, provides their fixtures, writes results to the journal."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from smoke.engine import child_process, lifetime, on_cpu
from smoke.engine.check import DEVICE, Check, Numbers
from smoke.engine.check_files import is_on_device, on
from smoke.engine.expect import KNOWN, Expect
from smoke.engine.finding import CheckFailed, Finding, explain, fail, of_foreign
from smoke.engine.import_order import bytecode_written
from smoke.engine.journal import Entry, Journal
from smoke.engine.plan import Plan, not_run

if TYPE_CHECKING:
    import torch

    from smoke.engine.check import Capability


def check_of(item: pytest.Function) -> Check:
    """Return what makes a function a check."""
    check = getattr(item.function, "check", None)
    if not isinstance(check, Check):
        raise pytest.UsageError(f"{item.nodeid} is not marked as a check")
    return check


class Suite:
    """One pytest run over the check files."""

    def __init__(self, expect: Expect, journal: Journal, plan: Plan) -> None:
        self._expect = expect
        self._journal = journal
        self._plan = plan
        self._index = plan.devices[0]
        # Whether another device of this run has the checks that are for no device.
        self._other = journal.index > 0
        self._numbers = Numbers(journal)
        self._known = KNOWN.get(expect.accelerator, {})
        self._error: BaseException | None = None
        self._started = 0.0
        self._lacking: dict[Capability, str] = {}
        self._has_computed = False  # on the device, in this process
        child_process.heard = self._hear

    @pytest.fixture
    def expect(self) -> Expect:
        """The content of ``expect.json``."""
        return self._expect

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
        from smoke.device import devices

        cause = self._device_failure()
        if cause and self._expect.on_gpu:
            raise CheckFailed(blocked(cause))
        chosen = devices.of(self._expect.accelerator)
        if chosen.index:
            # Programs name the type only: `torch.device("xpu")` is the current one.
            devices.backend(chosen).set_device(chosen)
        if self._plan.full:
            devices.sensors_of(chosen)  # it hears of the driver's errors from here on
        return chosen

    def _device_failure(self) -> Entry | None:
        """Return the finding of `device.ready` where that failed."""
        identifier = on(DEVICE, self._index)
        for result in self._journal.results():
            if result["id"] == identifier and result["outcome"] == "failed":
                finding: Entry = result["finding"]
                return finding
        return None

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Journal which checks are required, and keep those of them that have not ended yet."""
        ended = self._journal.ended()
        to_run, required, not_required = [], [], []
        for item in items:
            if self._other and not _is_on_device(item):
                continue
            head = self._headline(item)
            reason = self._reason(check_of(item))
            if reason:
                not_required.append(not_run(head, reason, required=False))
                continue
            required.append(head)
            if head["id"] not in ended:
                to_run.append(item)
        self._journal.write(required=required, not_required=not_required)
        items[:] = to_run

    def _headline(self, item: pytest.Function) -> dict[str, str]:
        """Return id, title, and the failure in the field that a check stands for."""
        check = check_of(item)
        title = (item.function.__doc__ or "").strip().splitlines()[0]
        index = self._index if _is_on_device(item) else 0
        identifier = on(check.identifier, index)
        return {"id": identifier, "title": title, "stands_for": check.stands_for}

    def _reason(self, check: Check) -> str:
        """Return why this run does not require a check, "" where it does."""
        if left_out := self._plan.leaves_out(check.identifier, full=check.full):
            return left_out
        lacking: dict[str, str] = self._known.get("checks", {})
        return lacking.get(check.identifier) or check.when(self._expect)

    def pytest_runtest_setup(self, item: pytest.Function) -> None:
        """Journal the start of a check; skip it where the device lacks what it needs."""
        self._numbers = Numbers(self._journal, self._known.get("float32", 0.0))
        self._error = None
        self._started = time.monotonic()
        self._journal.write(start=self._headline(item))
        needs = check_of(item).needs
        if self._other and self._expect.on_gpu:
            needs = (self._is_supported, *needs)
        if reason := self._lacks(needs):
            entry = not_run(self._headline(item), reason, required=False)
            self._journal.write(excused=[entry])
            pytest.skip(reason)

    def _lacks(self, needs: tuple[Capability, ...]) -> str:
        """Return what the device lacks of the capabilities, "" where it has all.

        Probed only now, when `device.ready` has passed: a probe can hang or end the process, which
        must neither hide that check nor count for another one than this.
        """
        if self._expect.on_gpu and self._device_failure():
            return ""
        for capability in needs:
            if reason := self._probe(capability):
                return reason
        return ""

    def _is_supported(self, device: torch.device) -> str:
        """Return why a further device is not meant by the target: an integrated GPU, for one."""
        from smoke.checks.test_device import test_family

        try:
            test_family(device, self._expect)
        except CheckFailed as verdict:
            # Of an unknown one nobody can say that it is not meant.
            return verdict.finding.symptom if verdict.finding.level == "error" else ""
        return ""

    def _probe(self, capability: Capability) -> str:
        from smoke.device import devices

        if capability in self._lacking:
            return self._lacking[capability]
        name = getattr(capability, "__name__", repr(capability))
        self._journal.write(step=f"probe {name}")
        try:
            reason = capability(devices.of(self._expect.accelerator))
        except Exception:  # noqa: BLE001 - a broken probe excuses nothing: the check runs
            reason = ""
        self._lacking[capability] = reason
        return reason

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        """Run a check; bytecode is not written while checks are collected."""
        with bytecode_written(), warnings.catch_warnings(record=True) as caught:
            try:
                returned = yield
            finally:
                self._hear("\n".join(str(warning.message) for warning in caught))
        self._judge_on_cpu()
        return returned

    def _hear(self, output: str) -> None:
        """Note the operators that torch names as computed by the CPU."""
        self._numbers.on_cpu |= on_cpu.names_in(output)

    def _judge_on_cpu(self) -> None:
        """Fail where the CPU computed what this release of torch has a kernel for."""
        names = self._numbers.on_cpu
        if not names:
            return
        release = sys.modules["torch"].__version__
        strangers, certain = on_cpu.unlisted(names, self._expect.accelerator, release)
        if strangers and certain:
            fail(
                "operator-on-cpu",
                f"the CPU computed {', '.join(strangers)}",
                [f"torch {release} names {name}" for name in sorted(names)],
            )
        for name in strangers:
            self._numbers.unknown.append(f"{name}, which the CPU computed")

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
            self._end(item)
        return report

    def _end(self, item: pytest.Function) -> None:
        """Journal how a check ended: with a result, or without one where nothing can decide it."""
        head = self._headline(item)
        if head["id"] in self._journal.ended():  # its device lacks what it needs
            return
        unknown = self._numbers.unknown
        if self._error or not unknown:
            result = self._result(item)
            self._journal.write(result=result)
            is_ready = head["id"] == on(DEVICE, self._index)
            if is_ready and result["outcome"] == "passed":
                self._begin(item.session.items)
            if self._expect.on_gpu and _is_on_device(item):
                self._leave_if_lost(result["outcome"])
            return
        reason = (
            f"refused: {', '.join(unknown[:5])}; what {self._expect.accelerator} offers "
            "in this release of torch is not known"
        )
        self._journal.write(excused=[not_run(head, reason, required=True)])

    def _leave_if_lost(self, outcome: str) -> None:
        """End this process where a failed check left it without its device: others must not fail.

        Another one runs the checks that are left. Where none has passed in this process, it is the
        device that is lost, and each check says so.
        """
        from smoke.device import devices

        if outcome != "failed":
            self._has_computed = True
        elif self._has_computed and not devices.computes(
            devices.of(self._expect.accelerator)
        ):
            os._exit(lifetime.DEVICE_LOST)

    def _begin(self, items: list[pytest.Item]) -> None:
        """Make the calls of later checks beside those before them."""
        child_process.begin(self._calls_of(items))

    def _calls_of(self, items: list[pytest.Item]) -> Iterator[child_process.Call]:
        from smoke.device import devices

        device = devices.of(self._expect.accelerator)
        for item in items:
            if isinstance(item, pytest.Function):
                beside = check_of(item).beside
                if beside:
                    yield beside(self._expect, device)

    def _result(self, item: pytest.Function) -> Entry:
        outcome, finding = "passed", None
        if self._error:
            problem = self._finding(self._error, item)
            outcome = "warned" if problem.level == "warning" else "failed"
            finding = problem.as_json()
        result: Entry = {
            **self._headline(item),
            "outcome": outcome,
            "seconds": round(time.monotonic() - self._started, 3),
            "numbers": self._numbers.values,
            "finding": finding,
        }
        if self._numbers.missing:
            result["not_measured"] = self._numbers.missing
        if self._numbers.on_cpu:
            result["on_cpu"] = sorted(self._numbers.on_cpu)
        return result

    def _finding(self, error: BaseException, item: pytest.Function) -> Finding:
        """Return why a check failed; of a further device with its number."""
        finding = explain(error)
        if self._expect.foreign:
            finding = of_foreign(finding, self._expect.target)
        if self._index and _is_on_device(item):
            evidence = (*finding.evidence, f"on device {self._index}")
            finding = replace(finding, evidence=evidence)
        return finding

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Journal that the suite is broken where a check file can't be imported."""
        if report.failed:
            self._journal.write(broken=f"{report.nodeid}: {report.longreprtext[-500:]}")


def _is_on_device(item: pytest.Function) -> bool:
    return is_on_device(check_of(item).identifier, item.fixturenames)


def blocked(cause: Entry) -> Finding:
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
