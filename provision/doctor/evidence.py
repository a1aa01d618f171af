"""Evidence: what all lines of a log say of the machine and of what is installed (evidence.toml)."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.failures import Failure, any_of, frames, library_part
from provision.doctor.matcher import Search
from provision.doctor.sampling import Line

_ABOVE = 40  # lines above a failure in which its cause can be
_AFTER = 4  # lines after the last one that a library prints in explanation
_IMPORT = re.compile(r"\s*(-+> ?\d+ )?(from \S+ )?import ").match
# Above an exception without a traceback, or one of these, are lines of anything.
_RAISED = re.compile(r"\s*(?:E\s+)?[\w.]*(?:Error|Exception)\b")
# A line that goes on with a message, below its first one.
_GOES_ON = re.compile(r"\s+(?!File \"|\w+\()[A-Za-z\[{]").match
_PLAIN = re.compile(
    r"\s*(?:E\s+)?(?:Key|Index|Type|Value|Attribute|Name|Assertion)Error\b"
)


class Evidence:
    """The facts of a log, looked for when a rule asks for them."""

    def __init__(self, search: Search, failure: Failure, mild: Container[int]) -> None:
        self.search, self._failure, self._mild = search, failure, mild
        self.last = None if failure.ended is None else search.lines[failure.ended]
        self.message = (
            list(_message(search.lines[failure.ended :])) if self.last else []
        )
        self._frames = frames(failure, search.lines)
        own = (
            each for each in self._frames if not any_of("passed_through").search(each)
        )
        self._alien = [
            (each, any_of("library_frame").search(each) is not None) for each in own
        ]

    @cached_property
    def region(self) -> Search:
        """The lines that can tell of the last failure: no warnings, and nothing handled."""
        lines, failure, start, end = self.search.lines, self._failure, 0, None
        if failure.ended is not None and not failure.wrapped:
            traced = "Traceback" in lines[failure.start].text
            alone = (_PLAIN if traced else _RAISED).match(lines[failure.ended].text)
            start = (failure.start if traced else failure.ended) - (
                1 if alone else _ABOVE
            )
            start, end = max(0, min(failure.near | {start})), failure.ended + _AFTER
        mild = {line for line in lines if any_of("handled").search(line.text)} - {
            self.last
        }
        mild |= {
            line
            for line in lines
            if line.number in self._mild and line is not self.last
        }
        return Search([line for line in lines[start:end] if line not in mild])

    def undecided(self) -> tuple[str, ...]:
        """Return the place of a failure that no rule knows, and what the log excludes."""
        rows = (
            row for row in data("evidence")["excluded"] if self.search.find(row["line"])
        )
        return (*self._frames[-1:], *(f"excluded: {row['what']}" for row in rows))

    def prefix(self) -> str:
        """Return the folder of the environment that the log names first."""
        found = (any_of("prefix").search(line.text) for line in self.search.lines)
        return next((each["prefix"] for each in found if each), "python")

    def agrees(self, when: Sequence[str], lacks: Sequence[str]) -> bool:
        """Whether the log shows all facts of ``when`` and none of ``lacks``."""
        return all(map(self._shows, when)) and not any(map(self._shows, lacks))

    def _shows(self, fact: str) -> bool:
        tables = data("evidence")
        if fact in ("in-library", "importing"):
            part = library_part(self.search.lines[: self._failure.ended])
            return any(map(_IMPORT, part)) if fact == "importing" else bool(part)
        if fact in ("program", "all-own"):  # the last frame is the program's, or each
            alien = [library for _, library in self._alien]
            return bool(alien) and not any(alien if fact == "all-own" else alien[-1:])
        if (
            fact == "foreign"
        ):  # a package that calls torch, or a library of data, does so wrongly
            core = re.compile(
                "|".join(tables["inside"][name] for name in ("core", "data-library"))
            )
            callers = [
                library for frame, library in self._alien if not core.search(frame)
            ]
            return any(callers[-1:])
        if pattern := tables["inside"].get(fact):
            inner = [each for each, _ in self._alien] or self._frames
            return any(re.search(pattern, each) for each in inner[-1:])
        if row := tables["conflict"].get(fact):
            return self._excluded(row)
        return any(self.search.find(pattern) for pattern in tables["facts"][fact])

    def _excluded(self, row: Mapping[str, Any]) -> bool:
        of, value = (self._version(row[key]) for key in ("of", "value"))
        for prefix, text in row["bounds"].items():
            start, bound = numbers(prefix), numbers(text)
            if of and value and of[: len(start)] == start:
                found = value[: len(bound)]
                return (found > bound) - (found < bound) in row["wrong"]
        return False

    def _version(self, name: str) -> list[int]:
        hits = [
            hit
            for p in data("evidence")["versions"][name]
            for hit in self.search.find(p)
        ]
        return numbers(max(hits, key=lambda hit: hit[0])[1]["version"]) if hits else []

    def in_context(self, finding: Finding, *, general: bool) -> Finding:
        """Return a finding as the machine of the log changes it; a general one with its place."""
        if general and finding.bad and self.last:  # several causes remain
            finding = replace(finding, evidence=finding.evidence + self.undecided())
        for row in data("evidence")["context"]:
            fits = finding.code in row.get("codes", ()) and (
                general or row.get("contradicts")
            )
            says = "says" in row and re.search(row["says"], finding.remedy)
            own = re.search(row.get("line", ""), finding.evidence[0], re.IGNORECASE)
            if (
                (fits or says)
                and own
                and self.agrees(row.get("when", ()), row.get("lacks", ()))
            ):
                texts = {
                    k: row[k]
                    for k in row.keys() & {"code", "symptom", "cause", "remedy"}
                }
                return replace(
                    finding, level=Level(row.get("level", finding.level)), **texts
                )
        return finding


def _message(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Yield the line of an exception, and those after it that go on with its message."""
    yield lines[0], lines[0].text
    if _RAISED.match(lines[0].text):
        for line in takewhile(lambda line: _GOES_ON(line.text), lines[1 : _AFTER + 1]):
            yield line, line.text.strip()


def provided(groups: Mapping[str, str]) -> str:
    """Return what provides the library, header or module that a match names; "" if unknown."""
    tables = data("evidence")["provides"]
    found = (
        tables[name].get(groups[name].lower(), "") for name in groups if name in tables
    )
    return next(filter(None, found), "")


def numbers(version: str) -> list[int]:
    """Return the first three numbers of a version."""
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
