"""Diagnosis of logs: applies the rules of ``log_rules.toml`` and orders their findings."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import BinaryIO

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.evidence import Evidence, provided
from provision.doctor.failures import any_of
from provision.doctor.matcher import Hit, Search
from provision.doctor.names import moved
from provision.doctor.predicates import PREDICATES
from provision.doctor.reading import Log, read_log
from provision.doctor.remedies import fitting, machine_of, with_commands
from provision.doctor.sampling import Line

Ranked = list[
    tuple[bool, Finding]
]  # each with whether it was before the last traceback
_EVIDENCE = 300
_OWN_FAULT = "not-environment"
_UNKNOWN = "not-recognised"


@dataclass(frozen=True, slots=True)
class LogRule:
    """A rule of ``log_rules.toml``, whose head explains the fields, or of ``evidence.toml``."""

    code: str
    any: Sequence[str]
    level: str
    symptom: str
    cause: str
    remedy: str
    reference: str = ""
    also: Sequence[str] = ()
    unless: Sequence[str] = ()
    when: Sequence[str] = ()
    lacks: Sequence[str] = ()
    anywhere: bool = False
    last: bool = False
    next: str = ""
    beside: str = ""
    test: str = ""
    smoke: bool = False
    ambiguous: bool = False
    transient: bool = False


@cache
def log_rules(table: str = "log_rules") -> tuple[LogRule, ...]:
    """Return the rules of a file in its order: causes before their symptoms."""
    texts, words = data("findings"), data(table).get("words", {})
    files = ["log_rules/mission", table] if table == "log_rules" else [table]
    rows = [
        {**texts[row["code"]], **row} for name in files for row in data(name)["rule"]
    ]
    for row in rows:
        row["any"] = [
            re.sub(r"@(\w+)@", lambda word: words[word[1]], p) for p in row["any"]
        ]
    return tuple(LogRule(**row) for row in rows)


def diagnose_log(source: str | BinaryIO) -> list[Finding]:
    """Return what a log shows of its environment, worst first: one finding per code.

    The source is a text, or a stream of bytes, read once from its position. A failure that is the
    program's own is ``not-environment``, one that nothing explains ``not-recognised``. OSError: the
    stream cannot be read, or does not end.
    """
    return findings_of(read_log(source))


def diagnose_evidence(evidence: Iterable[str]) -> Finding | None:
    """Return what the lines that a failed smoke check printed show, or None."""
    log = read_log("\n".join(evidence))
    return next((found for found in findings_of(log, smoke=True) if found.bad), None)


def findings_of(log: Log, *, smoke: bool = False) -> list[Finding]:
    """Return what :func:`diagnose_log` does, of a log that was read."""
    lines, failure, calm, mild, warned = (
        log.lines,
        log.failure,
        log.calm,
        log.mild,
        log.warned,
    )
    evidence = Evidence(Search(lines), failure, calm | mild)
    machine = machine_of(evidence.search)
    matched = _matched(evidence, min(failure.near | {failure.start}), smoke=smoke)

    def before(rule: LogRule, hit: Hit) -> bool:
        return not (rule.anywhere or failure.wrapped) and hit[0] < failure.start

    # A failure that no rule explains, at it or just above, is another one than those that matched
    # earlier: the program survived these, and they become notes. A note explains nothing.
    causes = [
        found for found in matched if _level(found[0], smoke=smoke) is not Level.NOTE
    ]
    explained = failure.wrapped or any(
        not before(*c) or c[1][0] in failure.near for c in causes
    )
    unknown = failure.ended is not None and not explained
    # A weak match, such as a warning or an integrated GPU in a list, does not explain a failure
    # whose last line names no device, if no cause matches it or a line after it.
    doubtful = failure.ended is not None and not (
        any_of("open_end").search(lines[failure.ended].text)
        or any(hit[0] >= failure.ended for _, hit in causes)
    )
    findings, first = Ranked(), min(failure.near | {failure.start})
    for rule, hit in matched:
        if rule.code == _OWN_FAULT and (failure.ended is None or hit[0] < first):
            continue  # survived
        number = lines[hit[0]].number
        only_warned = number in warned and not rule.anywhere
        level = _level(rule, smoke=smoke)
        weak = only_warned or level is Level.WARNING
        survived = hit[0] < failure.worked and not rule.anywhere
        # So was what is only warned of where nothing failed, unless it is a state that stays.
        stays = rule.code in data("failures")["stays"]
        survived |= failure.ended is None and number in (calm if stays else calm | mild)
        # The program says, in the same line or the next, that it deals with the error.
        near = f"{lines[hit[0]].text}\n{lines[min(hit[0] + 1, len(lines) - 1)].text}"
        handled = rule.transient and any_of("handled").search(near)
        if unknown or survived or handled or (doubtful and weak):
            level = Level.NOTE
        found = _finding(rule, hit, lines, level, machine=machine)
        general = rule.remedy == data("findings")[rule.code]["remedy"]
        late = before(rule, hit) or number in calm
        found = evidence.in_context(found, general=general)
        findings.append((late, replace(found, remedy=fitting(found.remedy, machine))))
    if failure.ended is not None and not any(
        f.bad or f.code == _OWN_FAULT for _, f in findings
    ):
        after = {hit[0] - failure.ended for _, hit in matched}
        findings = _with_verdict(findings, evidence, after, smoke=smoke)
    elif (
        not findings
        and failure.calm
        and (sure := _by_facts(evidence, lambda r: r.anywhere))
    ):
        return [sure]
    # Of one level, what was before the last traceback, or is harmless, comes last.
    findings.sort(key=lambda pair: (list(Level).index(pair[1].level), pair[0]))
    kept = {
        finding.code: finding for _, finding in reversed(findings)
    }  # a context may change it
    return [finding for _, finding in findings if kept[finding.code] is finding]


def _matched(
    evidence: Evidence, start: int, *, smoke: bool
) -> list[tuple[LogRule, Hit]]:
    """Return of each code the first rule that fires, rather at the last failure than before it."""
    found = dict[str, tuple[LogRule, Hit]]()
    for rule in log_rules():
        known = found.get(rule.code)
        if (rule.smoke and not smoke) or (
            known and (known[0].anywhere or known[1][0] >= start)
        ):
            continue
        if (hit := _fires(rule, evidence.search, evidence)) and (
            not known or hit[0] >= start
        ):
            found[rule.code] = (rule, hit)
    # One line is explained once: by the first rule that knows it.
    lines, once = set[int](), list[tuple[LogRule, Hit]]()
    for rule, hit in found.values():
        accuses = _level(rule, smoke=smoke) is Level.ERROR
        if accuses and hit[0] in lines:
            continue
        if accuses:
            lines.add(hit[0])
        once.append((rule, hit))
    return once


def _fires(rule: LogRule, search: Search, evidence: Evidence) -> Hit | None:
    lines = search.lines
    if rule.last:
        said = [(line, text) for line, text in evidence.message if line in lines]
        words = (
            (x, re.search(p, text, re.IGNORECASE)) for x, text in said for p in rule.any
        )
        hits = [(lines.index(line), match) for line, match in words if match][:1]
    else:
        hits = [hit for pattern in rule.any for hit in search.find(pattern)]
    if not hits:  # as most rules have none in a given log
        return None
    if "{provider}" in rule.cause + rule.remedy:
        hits = [hit for hit in hits if provided(hit[1].groupdict())]
    if rule.next:
        answer = re.compile(rule.next, re.IGNORECASE).search
        hits = [
            (i, m) for i, m in hits if any(answer(x.text) for x in lines[i + 1 : i + 2])
        ]
    if rule.beside:
        hits = [hit for hit in hits if search.find(_filled(rule.beside, hit))]
    if rule.test:
        whole, test = evidence.search, PREDICATES[rule.test]
        hits = [
            (i, m) for i, m in hits if test((whole.lines.index(lines[i]), m), whole)
        ]
    find = evidence.search.find
    if not hits or any(map(find, rule.unless)) or not all(map(find, rule.also)):
        return None
    return (
        max(hits, key=lambda hit: hit[0])
        if evidence.agrees(rule.when, rule.lacks)
        else None
    )


def _filled(pattern: str, hit: Hit) -> str:
    """Return a pattern with the groups of a match in place of their names."""
    for name, value in hit[1].groupdict().items():
        pattern = pattern.replace(
            f"<{name}>", re.sub(r"\\?[-_]", "[-_]", re.escape(value or ""))
        )
    return pattern


def _finding(
    rule: LogRule,
    hit: Hit,
    lines: Sequence[Line],
    level: Level,
    *,
    machine: frozenset[str] = frozenset(),
    **more: str,
) -> Finding:
    more |= {k: v for k, v in hit[1].groupdict().items() if v}
    groups = defaultdict(lambda: "what is quoted", more)
    groups |= moved(lines, hit) if rule.test == "moved" else {}
    groups["provider"] = provided(groups)
    remedy = rule.remedy + (f" (see {rule.reference})" if rule.reference else "")
    remedy = with_commands(remedy, machine)
    cause, remedy = (text.format_map(groups) for text in (rule.cause, remedy))
    number, text = lines[hit[0]].number, lines[hit[0]].text.strip()
    quote = f"line {number}: {text[:_EVIDENCE]}{'…' if len(text) > _EVIDENCE else ''}"
    return Finding(rule.code, level, rule.symptom, cause, remedy, (quote,))


def _level(rule: LogRule, *, smoke: bool) -> Level:
    return Level(("error" if smoke else "note") if rule.ambiguous else rule.level)


def _with_verdict(
    findings: Ranked, evidence: Evidence, after: set[int], *, smoke: bool
) -> Ranked:
    """Add what a failure is by its facts; a note at it leaves open only what would decide it."""
    named = not after.isdisjoint((0, 1, 2))
    facts, own = not (named or smoke), 0 not in after
    found = _by_facts(
        evidence,
        lambda r: (
            r.code == _UNKNOWN or facts or (own and r.last) or (smoke and r.smoke)
        ),
    )
    verdict = [(False, found)] if found else []
    named |= any(each.code in data("failures")["stays"] for _, each in findings)
    return (
        findings + verdict
        if found and named and found.code == _UNKNOWN
        else verdict + findings
    )


def _by_facts(evidence: Evidence, asked: Callable[[LogRule], bool]) -> Finding | None:
    """Return what a failure is that no sentence's rule explains, or what would decide it."""
    lines, prefix = evidence.region.lines, evidence.prefix()
    for rule in filter(asked, log_rules("evidence")):
        if hit := _fires(rule, evidence.region, evidence):
            found = _finding(rule, hit, lines, Level(rule.level), prefix=prefix)
            if rule.code == _UNKNOWN:
                return replace(found, evidence=found.evidence + evidence.undecided())
            return evidence.in_context(found, general=True)
    return None
