"""Diagnosis of logs: applies the rules of ``log_rules/`` and orders their findings."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import BinaryIO

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.failures import any_of, frames
from provision.doctor.machine import Machine
from provision.doctor.matcher import Hit, Search
from provision.doctor.reading import Log, read_log

# In the order in which they are asked: causes before their symptoms.
LAYERS = (
    "mission",
    "ipex",
    "companions",
    "abi",
    "windows",
    "builds",
    "containers",
    "drivers",
    "libraries",
    "compilers",
    "devices",
    "classes",
)
_QUOTED = 300  # signs of a line that a finding quotes
_OWN_FAULT = "not-environment"
_UNKNOWN = "not-recognised"


@dataclass(frozen=True, slots=True)
class LogRule:
    """A rule of ``log_rules/``, whose README explains the fields."""

    code: str
    any: Sequence[str]
    level: str
    symptom: str
    cause: str
    remedy: str
    reference: str = ""
    also: Sequence[str] = ()
    unless: Sequence[str] = ()
    anywhere: bool = False
    next: str = ""
    beside: str = ""
    smoke: bool = False
    ambiguous: bool = False
    transient: bool = False

    def graded(self, *, smoke: bool) -> Level:
        """Return how bad its findings are, in a smoke check or in a user's log."""
        if self.ambiguous:
            return Level.ERROR if smoke else Level.NOTE
        return Level(self.level)

    @property
    def general(self) -> bool:
        """Whether it has the remedy of its code, which a machine's own replaces."""
        text: str = data("findings")[self.code]["remedy"]
        return self.remedy == text


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that fired, and on which line of the log."""

    rule: LogRule
    at: int
    groups: dict[str, str]


@cache
def log_rules() -> tuple[LogRule, ...]:
    """Return all rules in the order in which they are asked."""
    texts = data("findings")
    rules = list[LogRule]()
    for layer in LAYERS:
        for row in data(f"log_rules/{layer}")["rule"]:
            rules.append(LogRule(**{**texts[row["code"]], **row}))
    return tuple(rules)


def diagnose_log(source: str | BinaryIO) -> list[Finding]:
    """Return what a log shows of its environment, worst first: one finding per code.

    The source is a text, or a stream of bytes, read once from its position. A failure
    that is the program's own is ``not-environment``, one that nothing explains
    ``not-recognised``. OSError: the stream cannot be read, or does not end.
    """
    return findings_of(read_log(source))


def diagnose_evidence(evidence: Iterable[str]) -> Finding | None:
    """Return what the lines that a failed smoke check printed show, or None."""
    log = read_log("\n".join(evidence))
    return next((found for found in findings_of(log, smoke=True) if found.bad), None)


def findings_of(log: Log, *, smoke: bool = False) -> list[Finding]:
    """Return what :func:`diagnose_log` does, of a log that was read."""
    search = Search(log.lines)
    machine = Machine(search)
    matches = _matches(log, search, smoke=smoke)
    judge = _Judge(log, matches, smoke=smoke)
    ranked = list[tuple[int, bool, Finding]]()
    for match in matches:
        if judge.drops(match):
            continue
        finding = _finding(match, log, machine, judge.level(match))
        rank = list(Level).index(finding.level)
        ranked.append((rank, judge.is_early(match), finding))
    ranked.sort(key=lambda row: row[:2])
    findings = _once(row[2] for row in ranked)
    told = any(finding.bad or finding.code == _OWN_FAULT for finding in findings)
    if log.failure.ended is None or told or smoke:
        return findings
    verdict = _verdict(log, machine)
    near_end = any(0 <= m.at - log.failure.ended <= 2 for m in matches)
    if near_end and verdict.code == _UNKNOWN:
        return [*findings, verdict]
    return [verdict, *findings]


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first finding of each code."""
    by_code = dict[str, Finding]()
    for finding in findings:
        by_code.setdefault(finding.code, finding)
    return list(by_code.values())


def _matches(log: Log, search: Search, *, smoke: bool) -> list[Match]:
    """Return of each code the first rule that fires, and of each line the first error.

    A match at the last failure is taken rather than one before it.
    """
    end = min(log.failure.near | {log.failure.start})
    by_code = dict[str, Match]()
    for rule in log_rules():
        earlier = by_code.get(rule.code)
        if rule.smoke and not smoke:
            continue
        if earlier and (earlier.rule.anywhere or earlier.at >= end):
            continue
        match = _fires(rule, search)
        if match and (not earlier or match.at >= end):
            by_code[rule.code] = match
    accused = set[int]()
    matches = list[Match]()
    for match in by_code.values():
        if match.rule.graded(smoke=smoke) is Level.ERROR:
            if match.at in accused:
                continue
            accused.add(match.at)
        matches.append(match)
    return matches


def _fires(rule: LogRule, search: Search) -> Match | None:
    """Return the last match of a rule whose conditions hold."""
    hits = [hit for pattern in rule.any for hit in search.find(pattern)]
    if not hits:  # as most rules have none in a given log
        return None
    if rule.next:
        after = re.compile(rule.next, re.IGNORECASE)
        hits = [hit for hit in hits if _line_after(search, hit, after)]
    if rule.beside:
        hits = [hit for hit in hits if search.find(_filled(rule.beside, hit))]
    if not hits or any(search.find(pattern) for pattern in rule.unless):
        return None
    if not all(search.find(pattern) for pattern in rule.also):
        return None
    at, match = max(hits, key=lambda hit: hit[0])
    groups = {name: text for name, text in match.groupdict().items() if text}
    return Match(rule, at, groups)


def _line_after(search: Search, hit: Hit, pattern: re.Pattern[str]) -> bool:
    after = search.lines[hit[0] + 1 : hit[0] + 2]
    return bool(after) and pattern.search(after[0].text) is not None


def _filled(pattern: str, hit: Hit) -> str:
    """Return a pattern with the groups of a match in place of their names."""
    for name, value in hit[1].groupdict().items():
        escaped = re.sub(r"\\?[-_]", "[-_]", re.escape(value or ""))
        pattern = pattern.replace(f"<{name}>", escaped)
    return pattern


class _Judge:
    """What the end of a log makes of the lines that rules know."""

    def __init__(self, log: Log, matches: Sequence[Match], *, smoke: bool) -> None:
        self._log = log
        self._failure = log.failure
        self._smoke = smoke
        causes = [m for m in matches if m.rule.graded(smoke=smoke) is not Level.NOTE]
        ended = log.failure.ended
        self._unknown = False
        self._doubtful = False
        if ended is not None and not log.failure.wrapped:
            # A failure that no rule explains, at it or just above, is another one than
            # those that matched earlier: the program survived these.
            self._unknown = all(
                self._is_before(m) and m.at not in log.failure.near for m in causes
            )
        if ended is not None:
            # A weak match, such as a warning, does not explain a failure whose last
            # line names no device, if no cause matches it or a line after it.
            open_end = any_of("open_end").search(log.lines[ended].text)
            later = any(m.at >= ended for m in causes)
            self._doubtful = not (open_end or later)

    def _is_before(self, match: Match) -> bool:
        if match.rule.anywhere or self._failure.wrapped:
            return False
        return match.at < self._failure.start

    def is_early(self, match: Match) -> bool:
        """Whether a match was before the last traceback, or is harmless."""
        number = self._log.lines[match.at].number
        return self._is_before(match) or number in self._log.calm

    def drops(self, match: Match) -> bool:
        """Whether a fault of the program was survived by it."""
        if match.rule.code != _OWN_FAULT:
            return False
        first = min(self._failure.near | {self._failure.start})
        return self._failure.ended is None or match.at < first

    def level(self, match: Match) -> Level:
        """Return how bad a match is: a note where the program went on after it."""
        rule, number = match.rule, self._log.lines[match.at].number
        level = rule.graded(smoke=self._smoke)
        only_warned = number in self._log.warned and not rule.anywhere
        if self._unknown or self._handled(match):
            return Level.NOTE
        if match.at < self._failure.worked and not rule.anywhere:
            return Level.NOTE
        if self._doubtful and (only_warned or level is Level.WARNING):
            return Level.NOTE
        if self._failure.ended is None:
            # Where nothing failed a warning is none, unless it tells of a state.
            stays = rule.code in data("failures")["stays"]
            if number in self._log.calm or (number in self._log.mild and not stays):
                return Level.NOTE
        return level

    def _handled(self, match: Match) -> bool:
        """Whether the program says, in the line or the next, that it tries again."""
        if not match.rule.transient:
            return False
        near = self._log.lines[match.at : match.at + 2]
        return any(any_of("handled").search(line.text) for line in near)


def _finding(match: Match, log: Log, machine: Machine, level: Level) -> Finding:
    rule = match.rule
    groups = defaultdict(lambda: "what is quoted", match.groups)
    remedy = machine.with_commands(rule.remedy).format_map(groups)
    if rule.reference:
        remedy += f" (see {rule.reference})"
    evidence = (_quote(log, match.at),)
    cause = rule.cause.format_map(groups)
    finding = Finding(rule.code, level, rule.symptom, cause, remedy, evidence)
    if rule.general:
        finding = machine.explained(finding)
    return replace(finding, remedy=machine.fitting(finding.remedy))


def _quote(log: Log, at: int) -> str:
    line = log.lines[at]
    text = line.text.strip()
    mark = "…" if len(text) > _QUOTED else ""
    return f"line {line.number}: {text[:_QUOTED]}{mark}"


def _verdict(log: Log, machine: Machine) -> Finding:
    """Return whose fault a failure is that no rule knows: the program's, or unknown.

    It is the program's where its own code raised one of Python's plain exceptions, or
    where torch refuses shapes and values without a word of a device.
    """
    ended = log.failure.ended or 0
    called = frames(log.failure, log.lines)
    inner = [text for text in called if not any_of("passed_through").search(text)]
    own = bool(inner) and not any_of("library_frame").search(inner[-1])
    computing = bool(inner) and any_of("torch_computing").search(inner[-1])
    text = log.lines[ended].text
    plain = own and any_of("plain_exception").search(text)
    refused = computing and not any_of("of_a_device").search(text)
    code = _OWN_FAULT if plain or refused else _UNKNOWN
    words = data("findings")[code]
    evidence = (_quote(log, ended), *called[-1:])
    remedy = machine.fitting(words["remedy"])
    level = Level(words["level"])
    return Finding(code, level, words["symptom"], words["cause"], remedy, evidence)
