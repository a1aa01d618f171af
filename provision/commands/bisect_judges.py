"""What judges a candidate of a search: a check of the suite, or a program of the user's."""

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from provision.commands.bisect_candidates import Candidate
from provision.commands.bisect_search import Word
from provision.commands.check import run_some
from provision.commands.smoke import compare_confirmed
from provision.commands.subject import from_generation
from provision.commands.suite import SmokeRequest
from provision.core.errors import Exit, ToolError, UsageError
from provision.core.process import Run, describe_exit, find_program
from provision.core.progress import Progress
from provision.core.variables import program_environment
from provision.report.history import baseline, suite_digest
from provision.report.model import Check, Report
from provision.report.regressions import CheckSpeed
from provision.spec.model import Target

PROGRAM = (
    "program"  # the code where a program fails: which of its codes does not matter
)
_SKIP = 125  # as for `git bisect run`
# A program that ended itself by a crash; by any other signal somebody else ended it.
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")
_OF_SHELLS = 128  # a shell's exit code is this and the number of the signal
_WINDOWS_EXCEPTION = 0xC0000000
_CONTROL_C = 0xC000013A  # STATUS_CONTROL_C_EXIT


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a candidate."""

    outcome: Literal["passed", "warned", "failed", "none"]  # none: nothing can be said
    why: str
    code: str = ""  # of the finding
    compared: bool = False  # it passed, and is worse than in earlier runs of this host
    unmeasured: bool = False  # its speed was not evaluated

    def word(self, end: "Seen | None") -> Word:
        """Return what it says beside what was seen of the bad end; None before that is known.

        Another failure than at that end says nothing of it.
        """
        # How the check itself fails at the bad end does not depend on its speed.
        if self.unmeasured and (end is None or end.compared):
            return "skipped"
        if self.outcome == "none":
            return "skipped"
        if self.outcome == "passed":
            return "good"
        if end is None:
            return "bad"
        is_same = self.code == end.code
        if self.outcome == "failed":
            return "bad" if is_same else "skipped"
        return "bad" if is_same and end.outcome == "warned" else "good"


Judge = Callable[[Candidate, Path], Seen]  # with the folder of its generation


def by_check(request: SmokeRequest, check: str, run: Run, progress: Progress) -> Judge:
    """Return what runs one check of the suite; a speed is measured again before it counts."""
    name = check.partition("@")[0]

    def judge(candidate: Candidate, folder: Path) -> Seen:
        assert candidate.lock  # noqa: S101 - it was built
        target = candidate.target
        smoke = replace(request, target=target)
        subject = from_generation(folder, candidate.lock)
        report = run_some(smoke, subject, [name], run, progress)
        seen = seen_of(report, check)
        if seen.outcome not in {"passed", "warned"}:
            return seen
        # Compared as a full run is; numbers of another suite do not compare.
        report = report.model_copy(update={"files": suite_digest(smoke.project)})
        earlier = baseline(smoke.project, target.name, report, progress.note)
        if not earlier:
            return seen
        _, comparison = compare_confirmed(
            smoke, subject, report, earlier, run=run, progress=progress
        )
        for finding in comparison.findings:
            if finding.bad and finding.code != "check-vanished":
                why = f"{finding.symptom}: {'; '.join(finding.evidence)}"
                return Seen("failed", why, finding.code, compared=True)
        if target.accelerator == "cpu":  # which promises no speed
            return seen
        return _with_speeds(seen, comparison.speeds, check)

    return judge


def _with_speeds(seen: Seen, speeds: Sequence[CheckSpeed], check: str) -> Seen:
    """Return what was seen, with why a speed of the check was not evaluated."""
    for speed in speeds:
        if speed.check == check and speed.not_evaluated:
            why = f"{seen.why}; its speed was not evaluated: {speed.not_evaluated}"
            return replace(seen, why=why, unmeasured=True)
    return seen


def seen_of(report: Report, check: str) -> Seen:
    """Return what a report says of a check; UsageError if the suite does not have it."""
    result = result_of(report, check)
    if result is None:
        if "no such check" in report.broken:
            raise _no_such_check(check)
        reasons = [entry.reason for entry in report.not_run if entry.id == check]
        reasons.append(report.broken.partition("\n")[0])
        return Seen("none", "; ".join(reasons))
    code: str = result.outcome
    why = code
    if result.finding:
        code = result.finding.code
        why = result.finding.symptom
    if result.blocked:
        return Seen("none", f"it could not run: {why}")
    if result.outcome == "passed":
        return Seen("passed", "it passed")
    return Seen(result.outcome, why, code)


def require_check(suite: Path, check: str) -> None:
    """Raise UsageError if no file of a suite names a check: before anything is built."""
    name = check.partition("@")[0]
    quoted = re.compile(f"[\"']{re.escape(name)}[\"']")
    for file in suite.rglob("*.py"):
        if quoted.search(file.read_text(encoding="utf-8")):
            return
    raise _no_such_check(check)


def _no_such_check(check: str) -> UsageError:
    return UsageError(
        f"--check {check}: the suite does not have this check",
        remedy="`provision smoke TARGET --full` lists all, docs/reference/checks.md describes them",
    )


def result_of(report: Report, check: str) -> Check | None:
    """Return the result of a check in a report, of that run or reused."""
    for result in (*report.checks, *report.reused):
        if result.id == check:
            return result
    return None


def by_program(command: Sequence[str], run: Run) -> Judge:
    """Return what runs a program in the environment, as `run` does, where the command was typed."""

    def judge(candidate: Candidate, folder: Path) -> Seen:
        environment, program = _program_in(command[0], candidate.target, folder)
        if program is None:
            return Seen("none", f"`{command[0]}` is not there")
        argv = [program, *command[1:]]
        try:
            completed = run(argv, env=environment, cwd=Path.cwd())
        except ToolError as error:
            return _verdict(Exit.NOT_EXECUTABLE, error.evidence)
        last_line = completed.tail.rpartition("\n")[2]
        return _verdict(completed.returncode, last_line)

    return judge


def require_program(name: str, target: Target, folder: Path) -> None:
    """Raise UsageError if an environment does not find a program."""
    _, program = _program_in(name, target, folder)
    if program is None:
        raise UsageError(
            f"{name}: there is no such program, neither in the environment nor on PATH",
            evidence=str(folder),
            remedy="name one that is there, such as `-- python repro.py`",
        )


def _program_in(
    name: str, target: Target, folder: Path
) -> tuple[dict[str, str], str | None]:
    """Return the variables of a program in an environment, and its path there."""
    environment, _ = program_environment(
        os.environ, folder, target.variables(folder), keep=target.run.keep
    )
    return environment, find_program(name, environment)


def _verdict(code: int, said: str) -> Seen:
    """Return what the end of a program says; ToolError if somebody ended it, or it has no verdict."""
    why = describe_exit(code)
    if said:
        why += f": {said}"
    if code == 0:
        return Seen("passed", why)
    if code == _SKIP:
        return Seen("none", why)
    if _is_abort(code):
        raise ToolError(
            "the program gave no verdict, and the search ended",
            evidence=why,
            cause="0 is good, 1 to 127 and a crash are bad, 125 skips a release; anything else "
            "is no verdict",
            remedy="run it again; what was built stays for that",
        )
    return Seen("failed", why, PROGRAM)


def _is_abort(code: int) -> bool:
    """Whether an exit code is neither good nor bad."""
    if sys.platform == "win32" or code >= _WINDOWS_EXCEPTION:
        return code == _CONTROL_C
    if 0 <= code < _OF_SHELLS:
        return False
    number = code - _OF_SHELLS
    if code < 0:
        number = -code
    return number not in {getattr(signal, name, None) for name in _CRASHES}
