"""The readiness contract: 0 keep, 1 remove, 2 no verdict; see docs/how-to/fleet.md."""

import _thread
import contextlib
import datetime as dt
import os
import platform
import re
import signal
import threading
import time
from typing import Any

from provision.cli.call import Call
from provision.cli.verbs.smoke import suite_of
from provision.commands.current import current_folder, require_current
from provision.commands.gate import GateResult, only_built_target
from provision.commands.machine import read_layers
from provision.commands.smoke import SmokeSkipped
from provision.core.errors import Exit, ToolError, UsageError
from provision.core.failures import as_error
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding
from provision.core.in_use import user_of
from provision.core.output import begins_with, require_replaceable
from provision.core.process import interrupt
from provision.core.variables import chooses_devices
from provision.host.vendors import occupants
from provision.report.history import last_report
from provision.report.model import SCHEMA, Report
from provision.report.speeds import speeds_of
from provision.report.verdict import (
    Verdict,
    facts_of,
    judge,
    most_devices,
    read_verdict,
)
from provision.ui import verdict as forms
from provision.ui.console import print_json, print_text

_CODES = {"keep": Exit.OK, "remove": Exit.FINDINGS, "none": Exit.USAGE}
_UNTIL_IDLE = 10.0  # seconds in which what an ended job left may go
_UNTIL_ENDED = 5.0  # seconds: a driver that hangs may hold the main thread for ever
_MORE_TIME = {"interrupted": "", "time-limit": "give it more with --time-limit"}
_HUNG = "the run could not be ended: a driver may hang"
_UNFIT = re.compile(r"^[^A-Za-z0-9]|[^A-Za-z0-9_.-]")  # in a part of a file's name


class Contract:
    """One verdict: reached, stored and printed, whatever happens meanwhile."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._options = call.arguments
        self._why = "interrupted"
        self._started = time.monotonic()
        self._ended = threading.Event()
        host = _UNFIT.sub("-", platform.node()).lstrip("-")
        self._node = self._options.node or os.environ.get("SLURMD_NODENAME") or host
        if getattr(self._options, "repair", False):
            raise UsageError(
                "--repair changes the environment, --contract only checks it"
            )
        if not self._options.target:
            self._options.target = only_built_target(call.project)
        for name in (self._node, self._options.target):
            if _UNFIT.search(name):
                raise UsageError(f"{name!r} is no name of a node or target")
        if self._options.output:  # before the run takes minutes
            require_replaceable(self._options.output, begins_with(*forms.MARKS))
        if self._options.time_limit:
            threading.Thread(target=self._watch, daemon=True).start()

    def keep(self) -> int:
        """Run the verb; return the exit code."""
        try:
            return self._give(self._judge())
        except KeyboardInterrupt as ended:
            notes = getattr(ended, "__notes__", ())
            reason = ", ".join([f"the run was ended: {self._why}", *notes])
            return self._give(self._none(self._why, reason, _MORE_TIME[self._why]))
        finally:
            self._ended.set()

    def _judge(self) -> Verdict:
        try:
            if self._options.idle and (users := self._occupants()):
                return self._none("busy", f"the device is used by {', '.join(users)}")
            outcome = self._options.handle(self._call)
            return self._verdict(**self._parts(outcome.result))
        except Exception as raised:  # noqa: BLE001 - none of them says anything about the node
            error = as_error(raised)
            self._call.console.error(error)
            code = "usage" if error.exit_code == Exit.USAGE else "tool"
            return self._none(code, error.what, error.remedy)

    def _parts(self, result: Any) -> dict[str, Any]:  # noqa: ANN401 - what the verb returned
        project, target = self._call.project, self._options.target
        if self._options.verb == "verify":
            record = require_current(project, target).record
            facts = {
                "stack": read_layers(project),
                "lock": record.lock,
                "python": record.python,
            }
            return facts | judge(("", finding) for finding in result.findings)
        if isinstance(result, GateResult):
            return self._of_gate(result)
        # Of a run that was left out, because nothing changed since, the last report is valid.
        report = getattr(result, "report", None) or last_report(
            project,
            target,
            device=self._options.device or "0",
            suite=suite_of(self._options),
        )
        assert report is not None  # noqa: S101 - see above
        comparison = getattr(result, "comparison", None)
        worse = comparison.findings if comparison else ()
        parts = facts_of(report) | judge(_findings(report, "failed"), worse)
        if isinstance(result, SmokeSkipped):
            parts["unchanged_since"] = result.since
        return parts

    def _of_gate(self, result: GateResult) -> dict[str, Any]:
        report = result.report
        failed = [("", finding) for finding in result.findings]
        failed += _findings(report, "failed")
        warned = [finding for _, finding in _findings(report, "warned")]
        parts = facts_of(report) | judge(failed, warned)
        if not chooses_devices(self._call.target.accelerator, os.environ):
            parts["most_devices"] = most_devices(report)
        return parts | {"speeds": speeds_of(report)}

    def _none(self, code: str, reason: str, remedy: str = "") -> Verdict:
        return self._verdict(verdict="none", code=code, reason=reason, remedy=remedy)

    def _verdict(self, **parts: Any) -> Verdict:  # noqa: ANN401 - validated
        run = {
            "schema": SCHEMA,
            "node": self._node,
            "target": self._options.target,
            "suite": self._suite(),
            "time": f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(time.monotonic() - self._started, 2),
        }
        return Verdict.model_validate(run | parts)

    def _suite(self) -> str:
        verb: str = self._options.verb
        if getattr(self._options, "group", False):
            return "group"
        return suite_of(self._options) if verb == "smoke" else verb

    def _give(self, verdict: Verdict) -> int:
        """Store and print a verdict; return its exit code."""
        folder = self._call.project.root / ".envs" / "verdicts"
        folder = self._options.verdicts or folder
        earlier = read_verdict(folder / verdict.file_name)
        verdict = verdict.after(earlier)
        try:
            # A node that is busy, or whose run was ended, is not fit again.
            if not (earlier and verdict.hides(earlier)):
                verdict.store(folder)
        except ToolError as error:  # a disk that is full, or lost with the network
            self._call.console.note(f"{error.what}: {error.evidence}")
        if self._options.output:
            write_atomic(self._options.output, self._text(verdict))
        if self._options.json or not self._options.output:
            self._print(verdict)
        return _CODES[verdict.verdict]

    def _print(self, verdict: Verdict) -> None:
        if self._options.json:
            is_kept = verdict.verdict == "keep"
            print_json(self._options.verb, verdict.document(), ok=is_kept)
        else:
            print_text(self._text(verdict))

    def _text(self, verdict: Verdict) -> str:
        form = getattr(forms, self._options.contract)
        return str(form(verdict))

    def _occupants(self) -> list[str]:
        """Who uses the device, once what is about to end has had its time."""
        accelerator = self._call.target.accelerator
        notes = set[str]()
        until = time.monotonic() + _UNTIL_IDLE
        users = self._users(accelerator, notes)
        while users and time.monotonic() < until:
            time.sleep(0.5)
            users = self._users(accelerator, notes)
        for note in sorted(notes):
            self._call.console.note(note)
        return users

    def _users(self, accelerator: str, notes: set[str]) -> list[str]:
        if accelerator != "cpu":
            return occupants(accelerator, notes)
        # A CPU is shared: programs of the environment count.
        with contextlib.ExitStack() as locks:
            folder = current_folder(self._call.project, self._options.target)
            user = user_of(folder, locks)
        return [user] if user else []

    def _watch(self) -> None:
        """End the run at its time limit, with everything that it has started."""
        if self._ended.wait(self._options.time_limit):
            return
        self._why = "time-limit"
        # Handled as soon as the main thread runs Python.
        _thread.interrupt_main(signal.SIGTERM)
        interrupt()
        if not self._ended.wait(_UNTIL_ENDED):
            self._leave(self._none(self._why, _HUNG))

    def _leave(self, verdict: Verdict) -> None:
        """Store and print a verdict while the main thread hangs, and end the process."""
        giving = threading.Thread(
            target=self._give_or_tell, args=[verdict], daemon=True
        )
        giving.start()
        giving.join(_UNTIL_ENDED)
        if giving.is_alive():  # its disk hangs, too
            self._print(verdict)
        os._exit(Exit.USAGE)

    def _give_or_tell(self, verdict: Verdict) -> None:
        try:
            self._give(verdict)
        except ToolError as error:
            self._call.console.error(error)


def _findings(report: Report, outcome: str) -> list[tuple[str, Finding]]:
    """Return the findings of the checks with an outcome, each with the id of its check."""
    findings = []
    for check in report.checks:
        if check.outcome == outcome and check.finding:
            findings.append((check.id, check.finding))
    return findings
