"""Diagnosis of logs: applies the rules of ``log_rules.toml`` and orders their findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.failures import Failure, any_of, is_own_fault, last_failure, undecided
from provision.doctor.matcher import Hit, Search
from provision.doctor.normalize import normalize_log
from provision.doctor.predicates import PREDICATES
from provision.doctor.sampling import Line, sample

_EVIDENCE = 300
_OWN_FAULT = "not-environment"
_UNKNOWN = "not-recognised"


@dataclass(frozen=True, slots=True)
class LogRule:
    """One rule of ``log_rules.toml``, whose head says what each field means."""

    code: str
    any: Sequence[str]
    also: Sequence[str] = ()
    unless: Sequence[str] = ()
    anywhere: bool = False
    test: str | None = None
    smoke: bool = False
    ambiguous: bool = False
    transient: bool = False
    level: str | None = None
    symptom: str | None = None
    cause: str | None = None
    remedy: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class FindingText:
    """The texts of a code, from ``findings.toml``."""

    level: str
    symptom: str
    cause: str
    remedy: str
    reference: str = ""


def diagnose_log(source: str | BinaryIO) -> list[Finding]:
    """Return what a log shows of its environment, worst first: one finding per code.

    The source is a text, or a stream of bytes of any size, read once from its position. A failure
    that no rule explains gives a note: ``not-environment`` where the log proves that it is the
    program's own, or else ``not-recognised``. A log without one gives nothing, or other notes.

    Raises:
        OSError: It cannot be read, or does not end.
    """
    return _diagnose(source, smoke=False)


def diagnose_evidence(evidence: Iterable[str]) -> Finding | None:
    """Return what the evidence of a failed smoke check shows, or None.

    The evidence is lines of an error message, of what led to it, and of the traceback.
    """
    found = _diagnose("\n".join(evidence), smoke=True)
    return next((finding for finding in found if finding.bad), None)


def _diagnose(source: str | BinaryIO, *, smoke: bool) -> list[Finding]:
    raw = sample(source)
    lines = normalize_log(raw)
    warned = {line.number for line in raw if any_of("warned").search(line.text)}
    failure = last_failure(lines)
    matched = _matched(Search(lines), smoke=smoke)

    def before(rule: LogRule, hit: Hit) -> bool:
        return not rule.anywhere and hit[0] < failure.start

    # What no rule explains at the last failure or just above it is another failure than those that
    # matched earlier: the program survived them, and they become notes.
    # A note explains nothing: beside one, what was survived earlier stays survived.
    causes = [found for found in matched if _level(found[0], smoke=smoke) is not Level.NOTE]
    explained = failure.wrapped or any(
        not before(rule, hit) or hit[0] in failure.near for rule, hit in causes
    )
    unknown = failure.ended is not None and not explained
    named = any(hit[0] == failure.ended for _, hit in matched)
    doubtful = _unexplained(failure, causes, lines)
    findings = []
    for rule, hit in matched:
        if rule.code == _OWN_FAULT and (failure.ended is None or hit[0] < min(failure.near | {failure.start})):
            continue  # survived
        only_warned = lines[hit[0]].number in warned and not rule.anywhere
        level = _level(rule, smoke=smoke)
        weak = only_warned or level is Level.WARNING
        survived = hit[0] < failure.worked and not rule.anywhere
        if rule.transient and not survived:
            # What was only warned of in a log without any failure was survived as well.
            survived = _handled(hit, lines) or (only_warned and failure.ended is None)
        if unknown or survived or (doubtful and weak):
            level = Level.NOTE
        findings.append((before(rule, hit), _finding(rule, hit, lines, level)))
    accused = any(finding.bad or finding.code == _OWN_FAULT for _, finding in findings)
    if failure.ended is not None and not accused:
        verdict = _verdict(failure, lines, named=named)
        findings.insert(len(findings) if named else 0, (False, verdict))
    order = list(Level)
    # Of one level, what was before the last traceback comes last. The sort is stable, so otherwise
    # the order of the rules stays: causes first.
    findings.sort(key=lambda pair: (order.index(pair[1].level), pair[0]))
    return [finding for _, finding in findings]


def _matched(search: Search, *, smoke: bool) -> list[tuple[LogRule, Hit]]:
    """Return the first rule of each code that fires, in the order of the file."""
    found: dict[str, tuple[LogRule, Hit]] = {}
    for rule in log_rules():
        applies = smoke or not rule.smoke
        if applies and rule.code not in found and (hit := _fires(rule, search)):
            found[rule.code] = (rule, hit)
    return list(found.values())


def _unexplained(
    failure: Failure, causes: Sequence[tuple[LogRule, Hit]], lines: Sequence[Line]
) -> bool:
    """Whether the last line names no device, and no cause matches it or a line after it.

    A weak match, such as a warning or an integrated GPU in a list, does not explain such a failure.
    """
    if failure.ended is None or any_of("open_end").search(lines[failure.ended].text):
        return False
    return all(hit[0] < failure.ended for _, hit in causes)


def _fires(rule: LogRule, search: Search) -> Hit | None:
    hits = [hit for pattern in rule.any for hit in search.find(pattern)]
    if rule.test:
        hits = [hit for hit in hits if PREDICATES[rule.test](hit, search)]
    # `unless` and `also` are searched only after a hit: most rules have none in a given log.
    if not hits or any(search.find(pattern) for pattern in rule.unless):
        return None
    if not all(search.find(pattern) for pattern in rule.also):
        return None
    return max(hits, key=lambda hit: hit[0])


def _handled(hit: Hit, lines: Sequence[Line]) -> bool:
    """Whether the program reports, in the same line or the next, that it deals with the error."""
    return any(any_of("handled").search(line.text) for line in lines[hit[0] : hit[0] + 2])


def _finding(rule: LogRule, hit: Hit, lines: Sequence[Line], level: Level) -> Finding:
    text = finding_texts()[rule.code]
    groups = {name: value or "" for name, value in hit[1].groupdict().items()}
    remedy = (rule.remedy or text.remedy).format_map(_Blank(groups))
    reference = text.reference if rule.reference is None else rule.reference
    if reference:
        remedy += f" (see {reference})"
    return Finding(
        code=rule.code,
        level=level,
        symptom=rule.symptom or text.symptom,
        cause=(rule.cause or text.cause).format_map(_Blank(groups)),
        remedy=remedy,
        evidence=(_quote(lines[hit[0]]),),
    )


def _level(rule: LogRule, *, smoke: bool) -> Level:
    if rule.ambiguous:
        return Level.ERROR if smoke else Level.NOTE
    return Level(rule.level or finding_texts()[rule.code].level)


def _verdict(failure: Failure, lines: Sequence[Line], *, named: bool) -> Finding:
    """Return whose fault a failure is that no rule explains, or what would decide it."""
    quote = _quote(lines[failure.ended or 0])
    if not named and is_own_fault(failure, lines):
        text = finding_texts()[_OWN_FAULT]
        return Finding(_OWN_FAULT, Level.NOTE, text.symptom, text.cause, text.remedy, (quote,))
    text = finding_texts()[_UNKNOWN]
    place, excluded, remedy = undecided(failure, lines)
    evidence = (quote, *((place,) if place else ()), *(f"excluded: {what}" for what in excluded))
    return Finding(_UNKNOWN, Level.NOTE, text.symptom, text.cause, remedy, evidence)


def _quote(line: Line) -> str:
    text = line.text.strip()
    return f"line {line.number}: {text[:_EVIDENCE]}{'…' if len(text) > _EVIDENCE else ''}"


class _Blank(dict[str, str]):
    """Groups of a match; one that the matching alternative lacks is shown as ``<name>``."""

    def __missing__(self, name: str) -> str:
        return f"<{name}>"


@cache
def log_rules() -> tuple[LogRule, ...]:
    """Return the log rules in the order of the file: causes before their symptoms."""
    return tuple(LogRule(**row) for row in data("log_rules")["rule"])


@cache
def finding_texts() -> dict[str, FindingText]:
    """Return the texts of every code."""
    return {code: FindingText(**row) for code, row in data("findings").items()}
