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
    """The facts that the lines of a log show, looked for when they are asked for."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._shown = dict[str, bool]()

    def shows(self, fact: str) -> bool:
        """Whether a line shows a fact of ``machine.toml``."""
        if fact not in self._shown:
            patterns = data("machine")["facts"][fact]
            self._shown[fact] = any(self._search.find(p) for p in patterns)
        return self._shown[fact]

    def only(self, names: Sequence[str]) -> str:
        """Return the one of some facts that is shown; "" if several are, or none."""
        shown = [name for name in names if self.shows(name)]
        return shown[0] if len(shown) == 1 else ""

    def explained(self, finding: Finding) -> Finding:
        """Return a finding with the cause and the remedy that its code has here."""
        for row in data("machine")["context"]:
            if finding.code not in row["codes"]:
                continue
            if not all(self.shows(fact) for fact in row["when"]):
                continue
            if any(self.shows(fact) for fact in row.get("lacks", ())):
                continue
            return replace(finding, cause=row["cause"], remedy=row["remedy"])
        return finding

    def fitting(self, remedy: str) -> str:
        """Return a remedy without the sentences that only help with another machine."""
        sentences = re.split(r"(?<=[.;]) +(?=\S)", remedy)
        kept = [text for text in sentences if not self._is_foreign(text)]
        if not kept:
            return _ELSEWHERE
        if len(kept) == len(sentences):
            return remedy
        text = " ".join(kept).rstrip(".;")
        return text[0].upper() + text[1:]

    def _is_foreign(self, sentence: str) -> bool:
        for row in data("machine")["only"]:
            names = SYSTEMS if row["for"][0] in SYSTEMS else ACCELERATORS
            own = self.only(names)
            if own and own not in row["for"] and re.search(row["words"], sentence):
                return True
        return False

    def with_commands(self, text: str) -> str:
        """Return a text with the commands that it names, such as ``{build arc}``."""
        return re.sub(
            r"\{(build|smoke) ([\w-]+)\}",
            lambda named: self._command(named[1], named[2]),
            text,
        )

    def _command(self, verb: str, kind: str) -> str:
        """Return a command for the target of a kind on the log's system, or for both."""
        system = self.only(SYSTEMS)
        if kind == "max":  # a Data Center GPU Max has drivers for Linux only
            system = "linux"
        if system in ("windows", "linux"):
            return f"`provision {verb} {kind}-{system}`"
        in_linux = f"(in Linux `provision {verb} {kind}-linux`)"
        return f"`provision {verb} {kind}-windows` {in_linux}"
