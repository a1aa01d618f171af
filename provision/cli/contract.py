"""The readiness contract: exit code 0 keep, 1 remove, 2 no verdict; docs/fleet.md describes it."""

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
from provision.commands.current import current_folder, require_current
from provision.commands.machine import read_layers
from provision.core.errors import Exit, ToolError, UsageError
from provision.core.failures import as_error
from provision.core.filesystem import write_atomic
from provision.core.in_use import user_of
from provision.core.process import interrupt
from provision.host.vendors import occupants
from provision.report.history import last_report
from provision.report.verdict import Verdict, facts_of, judge
from provision.ui import verdict as forms
from provision.ui.console import print_json, print_text

_CODES = {"keep": Exit.OK, "remove": Exit.FINDINGS, "none": Exit.USAGE}
_PATIENCE = 10.0  # seconds in which what an ended job left may go
_GRACE = 5.0  # seconds to end in: a driver that hangs may hold the main thread for ever
_UNFIT = re.compile(r"^[^A-Za-z0-9]|[^A-Za-z0-9_.-]")  # in a part of a file's name


class Contract:
    """One verdict: reached, stored and printed, whatever happens meanwhile."""

    def __init__(self, call: Call) -> None:
        self._call, self._wanted, self._why = call, call.arguments, "interrupted"
        self._started, self._ended = time.monotonic(), threading.Event()
        given = self._wanted.node or os.environ.get("SLURMD_NODENAME")
        self._node = given or _UNFIT.sub("-", platform.node()).lstrip("-")
        if getattr(self._wanted, "repair", False):
            raise UsageError(
                "--repair changes the environment, --contract only judges it"
            )
        if wrong := next(
            filter(_UNFIT.search, (self._node, self._wanted.target)), None
        ):
            raise UsageError(f"{wrong!r} is no name of a node or target")
        if self._wanted.time_limit:
            threading.Thread(target=self._watch, daemon=True).start()

    def keep(self) -> int:
        """Run the verb; return the exit code."""
        try:
            return self._give(self._judge())
        except KeyboardInterrupt:
            return self._give(self._none(self._why, f"the run was ended: {self._why}"))
        finally:
            self._ended.set()

    def _judge(self) -> Verdict:
        try:
            if self._wanted.idle and (users := self._occupants()):
                return self._none("busy", f"the device is used by {', '.join(users)}")
            return self._verdict(**self._parts(self._wanted.handle(self._call).result))
        except Exception as error:  # noqa: BLE001 - none of them says anything about the node
            known = as_error(error)
            self._call.console.error(known)
            code = "usage" if known.exit_code == Exit.USAGE else "tool"
            return self._none(code, known.what, known.remedy)

    def _parts(self, result: Any) -> dict[str, Any]:  # noqa: ANN401 - what the verb returned
        project, target = self._call.project, self._wanted.target
        if self._wanted.verb == "verify":
            record = require_current(project, target).record
            facts = {
                "stack": read_layers(project),
                "lock": record.lock,
                "python": record.python,
            }
            return facts | judge(("", finding) for finding in result.findings)
        # Of a run that was left out, because nothing changed since, the last report stands.
        report = getattr(result, "report", None) or last_report(
            project, target, device=self._wanted.device or "0"
        )
        assert report is not None  # noqa: S101 - see above
        compared = getattr(result, "comparison", None)
        failed = [(check.id, check.finding) for check in report.failed if check.finding]
        return facts_of(report) | judge(failed, compared.findings if compared else ())

    def _none(self, code: str, reason: str, remedy: str = "") -> Verdict:
        return self._verdict(verdict="none", code=code, reason=reason, remedy=remedy)

    def _verdict(self, **parts: Any) -> Verdict:  # noqa: ANN401 - validated
        chosen = (
            name for name in ("full", "health") if getattr(self._wanted, name, False)
        )
        suite = "verify" if self._wanted.verb == "verify" else next(chosen, "quick")
        known = {
            "schema": 1,
            "node": self._node,
            "target": self._wanted.target,
            "suite": suite,
            "time": f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}",
            "seconds": round(time.monotonic() - self._started, 2),
        }
        return Verdict.model_validate(known | parts)

    def _give(self, verdict: Verdict) -> int:
        """Store and print a verdict; return its exit code."""
        try:
            verdict.store(
                self._wanted.verdicts or self._call.project.root / ".envs" / "verdicts"
            )
        except (
            ToolError
        ) as error:  # a disk that is full, or lost with the network, is no verdict
            self._call.console.note(f"{error.what}: {error.evidence}")
        if self._wanted.output:
            write_atomic(
                self._wanted.output, getattr(forms, self._wanted.contract)(verdict)
            )
        if self._wanted.json or not self._wanted.output:
            self._print(verdict)
        return _CODES[verdict.verdict]

    def _print(self, verdict: Verdict) -> None:
        if self._wanted.json:
            print_json(
                self._wanted.verb, verdict.document(), ok=verdict.verdict == "keep"
            )
        else:
            print_text(getattr(forms, self._wanted.contract)(verdict))

    def _occupants(self) -> list[str]:
        """Return who uses the device, once what is about to end has had its time."""
        target, notes = self._call.target, set[str]()
        until = time.monotonic() + _PATIENCE
        while (
            found := self._users(target.accelerator, notes)
        ) and time.monotonic() < until:
            time.sleep(0.5)
        for note in sorted(notes):
            self._call.console.note(note)
        return found

    def _users(self, accelerator: str, notes: set[str]) -> list[str]:
        if accelerator != "cpu":
            return occupants(accelerator, notes)
        with (
            contextlib.ExitStack() as held
        ):  # a CPU is shared: programs of the environment count
            folder = current_folder(self._call.project, self._wanted.target)
            return [user] if (user := user_of(folder, held)) else []

    def _watch(self) -> None:
        """End the run at its time limit, with everything that it has started."""
        if self._ended.wait(self._wanted.time_limit):
            return
        self._why = "time-limit"
        _thread.interrupt_main(
            signal.SIGTERM
        )  # handled as soon as the main thread runs Python
        interrupt()
        if not self._ended.wait(_GRACE):
            self._print(
                self._none(self._why, "the run could not be ended: a driver may hang")
            )
            os._exit(Exit.USAGE)
