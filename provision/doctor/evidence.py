"""Evidence: what all lines of a log together say of the machine and of what is installed.

``evidence.toml`` names the facts, the patterns that show them, and the versions that exclude each
other. Rules of logs ask for facts; a finding takes the remedy of the machine that the log shows.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from provision.core.findings import Finding, Level
from provision.doctor.data import data
from provision.doctor.failures import Failure, any_of, frames, importing
from provision.doctor.matcher import Search
from provision.doctor.sampling import Line

_ABOVE = 40  # lines above a failure in which its cause can be
_AFTER = 4  # lines after the last one that a library prints in explanation
# Above an exception without a traceback, or one of these, are lines of anything.
_RAISED = re.compile(r"\s*(?:E\s+)?[\w.]*(?:Error|Exception)\b")
_PLAIN = re.compile(r"\s*(?:E\s+)?(?:Key|Index|Type|Value|Attribute|Name|Assertion)Error\b")


class Evidence:
    """The facts of a log, looked for when a rule asks for them."""

    def __init__(self, search: Search, failure: Failure, mild: Container[int]) -> None:
        self.search, self._failure, self._mild = search, failure, mild
        self.last = None if failure.ended is None else search.lines[failure.ended]
        self._frames = frames(failure, search.lines)
        through = any_of("passed_through").search
        self._own = [frame for frame in self._frames if not through(frame)]

    @cached_property
    def region(self) -> Search:
        """The lines that can tell of the last failure: no warnings, and nothing handled."""
        lines, failure = self.search.lines, self._failure
        start, end = 0, len(lines)
        if failure.ended is not None and not failure.wrapped:
            end = failure.ended + _AFTER
            traced = "Traceback" in lines[failure.start].text
            alone = (_PLAIN if traced else _RAISED).match(lines[failure.ended].text)
            start = (failure.start if traced else failure.ended) - (1 if alone else _ABOVE)
            start = max(0, min(failure.near | {start}))
        quiet = any_of("handled").search
        return Search([
            line for line in lines[start:end]
            if line is self.last or not (line.number in self._mild or quiet(line.text))
        ])  # fmt: skip

    @property
    def undecided(self) -> tuple[str, ...]:
        """The place of a failure that no rule knows, and what the log excludes."""
        rows = data("evidence")["excluded"]
        shown = (f"excluded: {row['what']}" for row in rows if self.search.find(row["line"]))
        return (*self._frames[-1:], *shown)

    @property
    def prefix(self) -> str:
        """The folder of the environment that the log names first."""
        found = map(any_of("prefix").search, (line.text for line in self.search.lines))
        return next((each["prefix"] for each in found if each), "python")

    def agrees(self, when: Sequence[str], lacks: Sequence[str]) -> bool:
        """Whether the log shows all facts of ``when`` and none of ``lacks``."""
        return all(map(self._shows, when)) and not any(map(self._shows, lacks))

    def _shows(self, fact: str) -> bool:
        tables, alien = data("evidence"), any_of("library_frame").search
        if fact == "importing":
            return importing(self.search.lines[: self._failure.ended])
        if fact == "all-own":
            return bool(self._own) and not any(map(alien, self._own))
        if fact == "program":
            return bool(self._own) and not alien(self._own[-1])
        if pattern := tables["inside"].get(fact):
            return any(re.search(pattern, each) for each in (self._own or self._frames)[-1:])
        if row := tables["conflict"].get(fact):
            return self._excluded(row)
        return any(self.search.find(pattern) for pattern in tables["facts"][fact])

    def _excluded(self, row: Mapping[str, Any]) -> bool:
        of, value = (self._version(row[key]) for key in ("of", "value"))
        for prefix, text in row["bounds"].items():
            start, bound = _numbers(prefix), _numbers(text)
            if of and value and of[: len(start)] == start:
                found = value[: len(bound)]
                return (found > bound) - (found < bound) in row["wrong"]
        return False

    def _version(self, name: str) -> list[int]:
        hits = [hit for p in data("evidence")["versions"][name] for hit in self.search.find(p)]
        return _numbers(max(hits, key=lambda hit: hit[0])[1]["version"]) if hits else []

    def in_context(self, finding: Finding, *, general: bool) -> Finding:
        """Return a finding with what the machine of the log changes in it.

        Texts of a rule's own stay, unless a fact contradicts them.
        """
        for row in data("evidence")["context"]:
            fits = finding.code in row["codes"] and (general or row.get("contradicts"))
            if fits and self.agrees(row.get("when", ()), row.get("lacks", ())):
                texts = {k: v for k, v in row.items() if k in ("code", "symptom", "cause", "remedy")}
                return replace(finding, level=Level(row.get("level", finding.level)), **texts)
        return finding


def provided(groups: Mapping[str, str]) -> str:
    """Return what provides a library, header, program or module that a match names; "" if unknown."""
    tables = data("evidence")["provides"]
    found = (tables[name].get(value.lower(), "") for name, value in groups.items() if name in tables)
    return next(filter(None, found), "")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]
