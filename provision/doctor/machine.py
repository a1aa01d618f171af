"""The machine that a log is of, and what fits it: causes, remedies and commands."""

import re
from collections.abc import Sequence
from dataclasses import replace

from provision.core.findings import Finding
from provision.doctor.data import data
from provision.doctor.matcher import Search

SYSTEMS = ("windows", "linux", "macos")
ACCELERATORS = ("intel", "nvidia", "amd")
_ELSEWHERE = "Run `provision detect`: it names the target of this machine; build that"


class Machine:
    """The facts of ``machine.toml`` that the lines of a log show."""

    def __init__(self, search: Search) -> None:
        self._facts = set[str]()
        for fact, patterns in data("machine")["facts"].items():
            if any(map(search.find, patterns)):
                self._facts.add(fact)

    def only(self, names: Sequence[str]) -> str:
        """Return the one of some facts that is shown; "" if several are, or none."""
        shown = self._facts.intersection(names)
        return shown.pop() if len(shown) == 1 else ""

    def explained(self, finding: Finding) -> Finding:
        """Return a finding with the cause and the remedy that its code has here."""
        for row in data("machine")["context"]:
            fits = self._facts.issuperset(row["when"])
            excluded = self._facts.intersection(row.get("lacks", ()))
            if finding.code in row["codes"] and fits and not excluded:
                return replace(finding, cause=row["cause"], remedy=row["remedy"])
        return finding

    def fitting(self, *remedies: str) -> str:
        """Return the first remedy that helps, without the sentences for another machine only."""
        for remedy in remedies:
            sentences = re.split(r"(?<=[.;]) +(?=\S)", remedy)
            fitting = [text for text in sentences if not self._is_foreign(text)]
            if fitting == sentences:
                return remedy
            if fitting:
                text = " ".join(fitting).rstrip(".;")
                return text[0].upper() + text[1:]
        return _ELSEWHERE

    def _is_foreign(self, sentence: str) -> bool:
        machine = {self.only(SYSTEMS), self.only(ACCELERATORS)}
        for row in data("machine")["only"]:
            kinds = SYSTEMS if row["for"][0] in SYSTEMS else ACCELERATORS
            others = set(kinds).difference(row["for"])
            # Linux in WSL needs what is said of WSL and of Windows.
            own = self._facts.intersection(row["for"])
            if machine & others and not own and re.search(row["words"], sentence):
                return True
        return False

    def with_commands(self, text: str) -> str:
        """Return a text with the commands that it names, such as ``{build arc}``."""
        return re.sub(r"\{(build|smoke) ([\w-]+)\}", self._command, text)

    def _command(self, named: re.Match[str]) -> str:
        """Return a command for the target of a kind on the log's system, or for both."""
        verb, kind = named.groups()
        system = self.only(SYSTEMS)
        if kind == "max":  # a Data Center GPU Max has drivers for Linux only
            system = "linux"
        if system in ("windows", "linux"):
            return f"`provision {verb} {kind}-{system}`"
        in_linux = f"(in Linux `provision {verb} {kind}-linux`)"
        return f"`provision {verb} {kind}-windows` {in_linux}"
