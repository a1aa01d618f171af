"""Diagnosis of logs: applies the rules of ``log_rules.toml`` and orders their findings."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.failures import Failure, any_of, is_own_fault, last_failure, quiet, undecided
from provision.doctor.matcher import Hit, Search
from provision.doctor.normalize import normalize_log
from provision.doctor.predicates import PREDICATES
from provision.doctor.sampling import Line, sample

_EVIDENCE = 300
_OWN_FAULT = "not-environment"
_UNKNOWN = "not-recognised"


@dataclass(frozen=True, slots=True)
class LogRule:
    """A rule of ``log_rules.toml``, whose head explains the fields, with the texts of its code."""

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
    test: str | None = None
    smoke: bool = False
    ambiguous: bool = False
    transient: bool = False


@cache
def log_rules() -> tuple[LogRule, ...]:
    """Return the log rules in the order of the file: causes before their symptoms."""
    texts = data("findings")
    return tuple(LogRule(**{**texts[row["code"]], **row}) for row in data("log_rules")["rule"])


def diagnose_log(source: str | BinaryIO) -> list[Finding]:
    """Return what a log shows of its environment, worst first: one finding per code.

    The source is a text, or a stream of bytes, read once from its position. A failure that no rule
    explains gives a note: ``not-environment`` where it is proven to be the program's own, or else
    ``not-recognised``. OSError: the stream cannot be read, or does not end.
    """
    return _diagnose(source, smoke=False)


def diagnose_evidence(evidence: Iterable[str]) -> Finding | None:
    """Return what the lines that a failed smoke check printed show, or None."""
    return next((found for found in _diagnose("\n".join(evidence), smoke=True) if found.bad), None)


def _diagnose(source: str | BinaryIO, *, smoke: bool) -> list[Finding]:
    raw = sample(source)
    lines = normalize_log(raw)
    calm = quiet(lines)
    warned = {line.number for line in raw if any_of("warned").search(line.text)}
    mild = warned | {line.number for line in raw if any_of("mild").search(line.text)}
    loud = [Line(n, "" if n in calm else text) for n, text in lines]
    failure = last_failure(loud, calm | mild)
    if failure.ended is not None:
        last = lines[failure.ended]
        # Beside a failure a harmless line explains nothing, but an installer says so what ended it.
        lines = lines if last.text.startswith("ERROR: ") else loud
        warned = set() if last.number in warned else warned  # the logger's level of every line
    matched = _matched(Search(lines), min(failure.near | {failure.start}), smoke=smoke)

    def before(rule: LogRule, hit: Hit) -> bool:
        return not (rule.anywhere or failure.wrapped) and hit[0] < failure.start

    # A failure that no rule explains, at it or just above, is another one than those that matched
    # earlier: the program survived these, and they become notes. A note explains nothing.
    causes = [found for found in matched if _level(found[0], smoke=smoke) is not Level.NOTE]
    explained = failure.wrapped or any(
        not before(rule, hit) or hit[0] in failure.near for rule, hit in causes
    )
    unknown = failure.ended is not None and not explained
    after = {hit[0] - (failure.ended or 0) for _, hit in matched}
    # A weak match, such as a warning or an integrated GPU in a list, does not explain a failure
    # whose last line names no device, if no cause matches it or a line after it.
    doubtful = failure.ended is not None and not (
        any_of("open_end").search(lines[failure.ended].text)
        or any(hit[0] >= failure.ended for _, hit in causes)
    )
    findings, first = [], min(failure.near | {failure.start})
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
        findings.append((before(rule, hit), _finding(rule, hit, lines, level)))
    if failure.ended is not None and not any(f.bad or f.code == _OWN_FAULT for _, f in findings):
        verdict = _verdict(failure, lines, named=0 in after)
        named = verdict.code == _UNKNOWN and not after.isdisjoint((0, 1, 2))
        findings.insert(len(findings) if named else 0, (False, verdict))
    # Of one level, what was before the last traceback comes last; else the rules keep their order.
    findings.sort(key=lambda pair: (list(Level).index(pair[1].level), pair[0]))
    return [finding for _, finding in findings]


def _matched(search: Search, start: int, *, smoke: bool) -> list[tuple[LogRule, Hit]]:
    """Return of each code the first rule that fires, rather at the last failure than before it."""
    found: dict[str, tuple[LogRule, Hit]] = {}
    for rule in log_rules():
        known = found.get(rule.code)
        if (rule.smoke and not smoke) or (known and (known[0].anywhere or known[1][0] >= start)):
            continue
        if (hit := _fires(rule, search)) and (not known or hit[0] >= start):
            found[rule.code] = (rule, hit)
    return list(found.values())


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


def _finding(rule: LogRule, hit: Hit, lines: Sequence[Line], level: Level) -> Finding:
    groups = defaultdict(
        lambda: "what is quoted", {k: v for k, v in hit[1].groupdict().items() if v}
    )
    remedy = rule.remedy + (f" (see {rule.reference})" if rule.reference else "")
    cause, remedy = (text.format_map(groups) for text in (rule.cause, remedy))
    return Finding(rule.code, level, rule.symptom, cause, remedy, (_quote(lines[hit[0]]),))


def _level(rule: LogRule, *, smoke: bool) -> Level:
    if rule.ambiguous:
        return Level.ERROR if smoke else Level.NOTE
    return Level(rule.level)


def _verdict(failure: Failure, lines: Sequence[Line], *, named: bool) -> Finding:
    """Return whose fault a failure is that no rule explains, or what would decide it."""
    own = not named and is_own_fault(failure, lines)
    facts, remedy = ([], "") if own else undecided(failure, lines)
    code = _OWN_FAULT if own else _UNKNOWN
    texts, evidence = data("findings")[code], (_quote(lines[failure.ended or 0]), *facts)
    words = (texts["symptom"], texts["cause"], remedy or texts["remedy"])
    return Finding(code, Level.NOTE, *words, evidence)


def _quote(line: Line) -> str:
    text = line.text.strip()
    return f"line {line.number}: {text[:_EVIDENCE]}{'…' if len(text) > _EVIDENCE else ''}"
