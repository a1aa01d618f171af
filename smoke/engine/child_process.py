"""Child processes of the suite, and findings of those that died or hung, workers among them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from smoke.engine import files, lifetime, machine_load, patience
from smoke.engine.finding import Finding

# Exit codes of processes that Windows ended; the texts are those of ntstatus.h.
WINDOWS = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000135: "a DLL was not found",
    0xC0000139: "a DLL lacks an entry point",
    0xC00000FD: "stack overflow",
    0xC0000142: "a DLL failed to start",
    0xC0000374: "heap corruption",
    0xC0000409: "stack buffer overrun",
}
CROWDED = 2.0  # load average per processor from which the machine may be the cause
TIMEOUT = 100.0  # seconds of silence of a child that does not compute
BEAT = 200  # looks of `patience.TICK` between two signs of life: ten seconds


def describe_exit(code: int) -> str:
    """Return a text for an exit status, as `subprocess` reports it."""
    unsigned = code & 0xFFFFFFFF
    if unsigned in WINDOWS:
        return f"Windows exception 0x{unsigned:08X} ({WINDOWS[unsigned]})"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def died(code: int, output: str, *, step: str | None = None) -> Finding:
    """Return the finding for a process that ended while it ran a check."""
    lines = [line for line in output.splitlines() if line.strip()]
    # A library that ends its process prints why, and the interpreter's stack may follow.
    errors = [line for line in lines[:-8] if "error" in line.lower()]
    status = describe_exit(code)
    evidence = [status]
    if step:
        evidence.append(f"while: {step}")
    evidence += errors[-4:] + lines[-8:]
    return Finding(
        "process-died",
        f"the process died: {status}",
        "native code (driver, runtime or operator library) ended the process",
        "compare driver and runtime with the last good report; `provision doctor` reads both",
        tuple(line[:300] for line in evidence),
    )


def hung(seconds: float, *, step: str | None = None) -> Finding:
    """Return the finding for a process that was stopped at its time limit."""
    cause = "the driver or the device does not answer, or kernels are compiled for a very long time"
    remedy = "look for resets of the device in the system log, reboot, then run the suite again"
    evidence = [f"limit {seconds:.0f} s", f"while: {step or 'the check ran'}"]
    load = machine_load.per_processor()
    if load > CROWDED:
        cause = f"other programs take the processors, or {cause}"
        remedy = (
            f"end other programs, and run the suite again; if it hangs again, {remedy}"
        )
        evidence.append(f"load average {load:.1f} per processor")
    return Finding(
        "probe-hung",
        f"no answer within {seconds:.0f} s; the process was stopped",
        cause,
        remedy,
        tuple(evidence),
    )


def start(
    argv: list[str], output: IO[bytes], *, leader: bool = False
) -> subprocess.Popen[bytes]:
    """Start a child whose two streams go to one file; a leader gets its own process group.

    It ends when this process ends in any way, `kill -9` included; on POSIX if it asks for that by
    `lifetime.end_with_parent`.
    """
    lifetime.own_descendants()
    pipe = lifetime.open_pipe()
    variables = os.environ | {lifetime.PIPE: "".join(map(str, pipe))}
    try:
        return subprocess.Popen(
            argv,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,  # no read of it can ever wait
            start_new_session=leader and os.name == "posix",
            pass_fds=pipe,
            env=variables,
        )
    finally:
        for end in pipe:
            os.close(end)  # the child has its own


def stop_group(leader: subprocess.Popen[bytes]) -> None:
    """Kill a child with all that it started: its process group, or on Windows its job."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
    else:
        leader.kill()  # this closes the job that it joined by `lifetime.own_descendants`
    leader.wait()


def alive() -> None:
    """Report that a child is being waited for; the worker puts its journal in this place."""


def heard(output: str) -> None:
    """Take what a child printed; the running suite puts its own function in this place."""


@dataclass(frozen=True)
class Answer:
    """The result of a function that was called in a fresh process.

    Attributes:
        value: What it returned.
        finding: Why it did not return, or None.
        output: Both streams of the process.
    """

    value: Any
    finding: Finding | None
    output: str


class Child:
    """A fresh process of this same program that calls a function once it has its arguments."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._scratch = files.scratch_folder()
        self._folder = Path(self._scratch.name)
        # The same main script again: a wrapper of the worker, as the tests have, wraps these too.
        main = str(Path(sys.argv[0]).resolve())
        argv = [sys.executable, "-I", "-u", main]
        argv += ["--call", function, str(self._folder)]
        with self._log.open("wb") as output:
            self._process = start(argv, output)

    @property
    def _log(self) -> Path:
        return self._folder / "output.log"

    def answer(
        self, arguments: dict[str, object], timeout: float, look: Callable[[], bool]
    ) -> Answer:
        """Give the arguments and wait for what the function returns; see `patience.wait`."""
        # Whole at once: the process looks for this name.
        files.write(self._folder / "arguments.json", json.dumps(arguments))
        with self._scratch:
            code, seconds = patience.wait(self._process, timeout, look)
            if code is None:
                self._process.kill()
                self._process.wait()
            log = self._log.read_text(encoding="utf-8", errors="replace")
            return self._judged(code, seconds, log)

    def _judged(self, code: int | None, seconds: float, log: str) -> Answer:
        if code is None:
            finding = hung(seconds, step=self._function)
            return Answer(None, finding, log)
        written = self._folder / "answer.json"
        if code != 0 or not written.exists():
            finding = died(code, log, step=self._function)
            return Answer(None, finding, log)
        reply = json.loads(written.read_text(encoding="utf-8"))
        if reply["finding"]:
            return Answer(None, Finding(**reply["finding"]), log)
        return Answer(reply["value"], None, log)


# ``module:function`` and its arguments, which are JSON values.
Call = tuple[str, dict[str, object]]
# What was started before its check: processes that wait for arguments, by their function,
# and answers to come, by function and arguments.
_standing_by: dict[str, Child] = {}
_begun: dict[str, Future[Answer]] = {}


def stand_by(function: str) -> None:
    """Start the process of a later `call`: it imports torch while this process does."""
    _standing_by[function] = Child(function)


def begin(calls: Iterable[Call]) -> None:
    """Make calls one after the other beside this process; `call` then returns their answers."""
    asked = [(call, Future[Answer]()) for call in calls]
    for call, answer in asked:
        _begun[_key(call)] = answer

    def run() -> None:
        for (function, arguments), answer in asked:
            try:
                # It gives no sign of life: the process that runs the checks may itself hang.
                child = Child(function)
                answer.set_result(child.answer(arguments, TIMEOUT, lambda: False))
            except Exception as error:  # noqa: BLE001 - raised by the check that asks for it
                answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()


def _key(call: Call) -> str:
    return json.dumps(call, sort_keys=True)


def call(function: str, *, timeout: float = TIMEOUT, **arguments: object) -> Answer:
    """Run ``module:function(**arguments)`` in a fresh process of this same program.

    Arguments and value are passed as JSON files, which keep floats bit for bit: the process may
    print anything to its streams, as native libraries do. The process may have been started
    before (`stand_by`), or the call may have been made (`begin`).

    Args:
        function: ``module:name``.
        timeout: Seconds until the process is killed, unless it computes; see `patience`.
        arguments: Keyword arguments, JSON values.
    """
    looks = itertools.count(1)

    def look() -> bool:
        """Tell of this process now and then; the child itself gives no sign of life."""
        if next(looks) % BEAT == 0:
            alive()
        return False

    begun = _begun.pop(_key((function, arguments)), None)
    if begun is None:
        child = _standing_by.pop(function, None) or Child(function)
        answer = child.answer(arguments, timeout, look)
    else:
        while not wait([begun], patience.TICK).done:
            look()
        answer = begun.result()
    heard(answer.output)
    return answer
