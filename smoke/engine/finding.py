"""Why a check failed, in the toolkit's own terms: symptom, cause, remedy, evidence.

A check that fails on what it measured names its cause itself (`fail`). An exception, or a process
that died, leaves the suite as ``op-fails``, ``import-fails`` or ``process-died``: error texts are
recognised by the toolkit's log rules only, which read the evidence of these findings.
"""

import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NoReturn

from smoke.engine.files import read_table

# Enough to recognise an error by; some messages of torch list every registered kernel.
_HEAD, _TAIL, _CALLS = 4, 4, 5
_LONGEST = 300
TABLE = read_table(__file__, "findings.json")
# How to have an environment of a lock as it was built; remedies of findings.json end with it, too.
REBUILD = "build the environment again from its lock"
_NAMES_ERROR = re.compile(r"\w*(Error|Exception): ")


@dataclass(frozen=True)
class Finding:
    """One failure and what to do about it; the report's form of the toolkit's findings."""

    code: str
    symptom: str
    cause: str
    remedy: str
    evidence: tuple[str, ...]
    level: str = "error"

    def as_json(self) -> dict[str, object]:
        """Return the finding as the report holds it."""
        return {**asdict(self), "evidence": list(self.evidence)}


class CheckFailed(Exception):  # noqa: N818 - it is an outcome, not an error of the suite
    """A check came to a verdict: what it proves does not hold here."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.code}: {finding.symptom}")
        self.finding = finding


def fail(
    code: str,
    symptom: str,
    evidence: Iterable[object],
    level: str = "",
    *,
    cause: str = "",
    remedy: str = "",
) -> NoReturn:
    """End the running check with a finding; one of level ``warning`` stops nothing.

    What is not given is of ``findings.json``, and the level is otherwise ``error``.

    Raises:
        CheckFailed: Always.
    """
    text = TABLE.get(code, {})
    finding = Finding(
        code,
        symptom,
        cause or text["cause"],
        remedy or text["remedy"],
        tuple(map(str, evidence)),
        level or text.get("level", "error"),
    )
    raise CheckFailed(finding)


def fail_if(
    wrong: Sequence[str],
    code: str,
    level: str = "",
    *,
    cause: str = "",
    remedy: str = "",
) -> None:
    """End the running check with all that is wrong, the first as its symptom; see `fail`."""
    if wrong:
        fail(code, wrong[0], wrong[:20], level, cause=cause, remedy=remedy)


def of_foreign(finding: Finding, target: str) -> Finding:
    """Return a finding as it is for an environment that has no lock from which to build it again."""
    texts = TABLE.get(finding.code, {}).get("foreign", {})
    own = f"use that of `provision build {target}`"
    remedy = finding.remedy.replace(
        REBUILD, f"repair the environment with what made it, or {own}"
    )
    return replace(
        finding,
        cause=texts.get("cause", finding.cause),
        remedy=texts.get("remedy", remedy),
        level=texts.get("level", finding.level),
    )


def explain(error: BaseException, *, code: str = "op-fails") -> Finding:
    """Turn what a check raised into a finding.

    Args:
        error: The exception.
        code: The code where it is not a check's own verdict.
    """
    if isinstance(error, CheckFailed):
        return error.finding
    lines = _lines(error)
    symptom = _symptom(lines)
    return Finding(
        code,
        symptom,
        "not known to the smoke suite: the evidence is the library's own error",
        "save this report and run `provision doctor --log REPORT`, which explains many errors; "
        "compare with the last report of this machine",
        (*_shortened(lines, symptom), *_origins(error), *_calls(error)),
    )


def _lines(error: BaseException) -> list[str]:
    text = f"{type(error).__name__}: {error}"
    lines = filter(None, map(str.strip, text.splitlines()))
    return [line[:_LONGEST] for line in lines]


def _symptom(lines: list[str]) -> str:
    """Return the line that names the error; TorchScript puts it below its traceback."""
    if "TorchScript interpreter" not in lines[0]:
        return lines[0]
    return next(line for line in reversed(lines) if _NAMES_ERROR.match(line))


def _shortened(lines: list[str], symptom: str) -> list[str]:
    """Return the first and the last lines of a message, and the one that names the error."""
    first, last = lines[:_HEAD], lines[_HEAD:][-_TAIL:]
    if symptom in first + last:
        return first + last
    return [*first, symptom, *last]


def _origins(error: BaseException) -> Iterator[str]:
    """Yield the exceptions that led to one: ``transformers`` wraps what an import raised."""
    origin = error.__cause__ if error.__suppress_context__ else error.__context__
    if origin is not None:
        yield _lines(origin)[0]
        yield from _origins(origin)


def _calls(error: BaseException) -> list[str]:
    """Return the innermost calls as a traceback writes them; they name the library at fault."""
    calls = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        calls.append(f'File "{code.co_filename}", line {line}, in {code.co_name}')
    return calls[-_CALLS:]
