"""Diagnosis of logs: applies the rules of ``log_rules/`` and orders their findings."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import BinaryIO

from provision.core.findings import Finding, Level, worst_first
from provision.doctor.data import data
from provision.doctor.failures import any_of, frames, matching
from provision.doctor.machine import Machine
from provision.doctor.matcher import Hit, Search
from provision.doctor.reading import Log, read_log
from provision.doctor.targets import in_own_verbs

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
_BESIDE = 2  # lines between a failure and a warning or note that may explain it
_QUOTED = 300  # signs of a line that a finding quotes
_OWN_FAULT = "not-environment"
_UNKNOWN = "not-recognised"
# A file of an environment that Provision built: .envs/TARGET/GENERATION/…
_OF_TARGET = re.compile(
    r"""(?:^|["'(\s\\/])\.envs[\\/]([a-z0-9]+(?:-[a-z0-9]+)*)[\\/][^\\/"]+[\\/]"""
)
_EDITED = (
    "Run `provision verify TARGET --deep` first: the quoted file may have been edited, and this"
    " names each file that differs from the lock. If none does, go on."
)


@dataclass(frozen=True, slots=True)
class LogRule:
    """A rule of ``log_rules/``: patterns of lines, and what a match means."""

    code: str
    any: Sequence[str]  # one matches the line that is quoted
    level: str
    symptom: str
    cause: str
    remedy: str
    reference: str = ""
    also: Sequence[str] = ()  # each matches some line
    unless: Sequence[str] = ()  # none matches any line
    anywhere: bool = False  # it tells of a state, which no later line ends
    next: str = ""  # matches the line after
    beside: str = ""  # matches some line, with the groups of the match in it
    smoke: bool = False  # for the evidence of a smoke check only
    ambiguous: bool = False  # a note in a log, whose program may be at fault
    transient: bool = False  # a note where the program says that it tries again

    def graded(self, *, smoke: bool) -> Level:
        """How bad its findings are, in a smoke check or in a user's log."""
        if self.ambiguous:
            return Level.ERROR if smoke else Level.NOTE
        return Level(self.level)


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that fired, on which line of the log, and the groups of its pattern."""

    rule: LogRule
    at: int
    groups: dict[str, str]


@cache
def log_rules() -> tuple[LogRule, ...]:
    """All rules in the order in which they are asked."""
    texts = data("findings")
    rules = []
    for layer in LAYERS:
        for row in data(f"log_rules/{layer}")["rule"]:
            fields = texts[row["code"]] | row
            rules.append(LogRule(**fields))
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
    findings = findings_of(read_log("\n".join(evidence)), smoke=True)
    return next((finding for finding in findings if finding.bad), None)


def findings_of(log: Log, *, smoke: bool = False) -> list[Finding]:
    """Return what :func:`diagnose_log` does, of a log that was read."""
    search = Search(log.lines)
    machine = Machine(search)
    matches = _matches(log, search, smoke=smoke)
    findings = []
    for match in matches:
        graded = match.rule.graded(smoke=smoke)
        level = Level.NOTE if _went_on(match, log) else graded
        findings.append(_finding(match, log, machine, level))
    findings = _without_explained(worst_first(findings))
    explained = any(f.bad or f.code == _OWN_FAULT for f in findings)
    if log.failure.ended is None or explained or smoke:
        return findings
    verdict = _verdict(log, machine)
    if any(_is_beside_failure(match, log) for match in matches):
        return [*findings, verdict]
    return [verdict, *findings]


def _matches(log: Log, search: Search, *, smoke: bool) -> list[Match]:
    """Return of each code the first rule that fires.

    A match in the last failure is taken rather than one before it.
    """
    by_code = dict[str, Match]()
    for rule in log_rules():
        if rule.smoke and not smoke:
            continue
        match = _fires(rule, search)
        if match is None:
            continue
        if rule.code == _OWN_FAULT and _went_on(match, log):
            continue
        survived = match.at < log.failure.start
        if survived and rule.code in by_code:
            continue
        earlier = by_code.get(rule.code)
        if earlier is None or earlier.at < log.failure.start:
            by_code[rule.code] = match
    return [*by_code.values()]


def _without_explained(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out what else is said of a line that an error explains."""
    explained = set()
    distinct = []
    for finding in findings:
        line = finding.evidence[0]
        if line not in explained:
            distinct.append(finding)
        if finding.level is Level.ERROR:
            explained.add(line)
    return distinct


def _fires(rule: LogRule, search: Search) -> Match | None:
    """Return the last match of a rule whose conditions hold."""
    hits = []
    for pattern in rule.any:
        for hit in search.find(pattern):
            if _is_confirmed(rule, search, hit):
                hits.append(hit)
    excluded = any(map(search.find, rule.unless))
    if not hits or excluded or not all(map(search.find, rule.also)):
        return None
    at, match = max(hits, key=lambda hit: hit[0])
    return Match(rule, at, match.groupdict(""))


def _is_confirmed(rule: LogRule, search: Search, hit: Hit) -> bool:
    """Whether the line after a match, and one beside it, are as the rule says."""
    if rule.next:
        after = search.lines[hit[0] + 1 : hit[0] + 2]
        if not after or not re.search(rule.next, after[0].text, re.IGNORECASE):
            return False
    return not rule.beside or bool(search.find(_filled(rule.beside, hit)))


def _filled(pattern: str, hit: Hit) -> str:
    """Return a pattern with the groups of a match in place of their names."""
    for name, value in hit[1].groupdict().items():
        escaped = re.sub(r"\\?[-_]", "[-_]", re.escape(value or ""))
        pattern = pattern.replace(f"<{name}>", escaped)
    return pattern


def _went_on(match: Match, log: Log) -> bool:
    """Whether the program survived what a match tells of."""
    rule = match.rule
    if match.at < log.failure.start and not rule.anywhere:
        return True
    warned = log.lines[match.at].number in log.warnings
    states = data("failures")["stays"]
    if warned and rule.code not in states and not _is_beside_failure(match, log):
        return True
    near = log.lines[match.at : match.at + 2]
    return rule.transient and bool(matching("handled", near))


def _is_beside_failure(match: Match, log: Log) -> bool:
    ended = log.failure.ended
    return ended is not None and abs(match.at - ended) <= _BESIDE


def _finding(match: Match, log: Log, machine: Machine, level: Level) -> Finding:
    rule = match.rule
    groups = defaultdict[str, str](lambda: "what is quoted")
    for name, text in match.groups.items():
        if text:
            groups[name] = text
    general = data("findings")[rule.code]["remedy"]
    remedies = []
    for text in (rule.remedy, general):
        remedies.append(machine.with_commands(text).format_map(groups))
    if rule.reference:
        remedies[0] += f" (see {rule.reference})"
    cause = rule.cause.format_map(groups)
    evidence = (_quote(log, match.at),)
    finding = Finding(rule.code, level, rule.symptom, cause, remedies[0], evidence)
    if rule.remedy == general:  # not a rule's own
        finding = machine.explained(finding)
    # Where the rule's own remedy is for another machine, the code's may help.
    return replace(finding, remedy=machine.fitting(finding.remedy, remedies[1]))


def _quote(log: Log, at: int) -> str:
    number, text = log.lines[at]
    text = text.strip()
    if re.fullmatch(r"[\w.]+:", text):  # a message may begin on the line after
        text = " ".join(
            [text, *(line.text.strip() for line in log.lines[at + 1 : at + 2])]
        )
    if len(text) > _QUOTED:
        text = f"{text[:_QUOTED]}…"
    return f"line {number}: {text}"


def _verdict(log: Log, machine: Machine) -> Finding:
    """Return whose fault a failure is that no rule knows: the program's, or unknown.

    It is the program's where its own code raised one of Python's plain exceptions.
    """
    ended = log.failure.ended or 0
    called = frames(log.lines[log.failure.start : ended])
    error = log.lines[ended].text
    code = _UNKNOWN
    target = _target_of(called[-1]) if called else ""
    own = called and not target and not any_of("library_frame").search(called[-1])
    if own and any_of("plain_exception").search(error):
        code = _OWN_FAULT
    else:  # the error of an import names the file that lacks a name
        target = target or _target_of(error)
    words = data("findings")[code]
    evidence = (_quote(log, ended), *called[-1:])
    remedy = machine.fitting(words["remedy"])
    if target:
        remedy = in_own_verbs(f"{_EDITED} {remedy}", target)
    level = Level(words["level"])
    return Finding(code, level, words["symptom"], words["cause"], remedy, evidence)


def _target_of(line: str) -> str:
    """Return the target in whose environment the file of a line is; "" if it is in none."""
    match = _OF_TARGET.search(line)
    return match[1] if match else ""
