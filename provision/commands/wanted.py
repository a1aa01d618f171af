"""A line of a repository that requires a distribution."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

_LOCAL = re.compile(r"(?:\+|%2[Bb])([a-z]+)[\w.]*")  # of a build: 2.8.0+cu128


class Wanted(NamedTuple):
    """A line of a repository that requires a distribution."""

    requirement: Requirement
    place: str
    holds: bool = True  # for each lock reads it; false of what only conda reads
    has_index: bool = False  # which uv takes it from

    def __str__(self) -> str:
        return f"{self.place}: {self.asked}"

    @property
    def asked(self) -> str:
        """What it requires, without its marker; of a file on a server, its name."""
        text = self.requirement.url or str(self.requirement).partition(";")[0]
        return text.rpartition("/")[2].strip()

    @property
    def specifier(self) -> SpecifierSet:
        """The versions, whichever accelerator they were built for."""
        return SpecifierSet(_LOCAL.sub("", str(self.requirement.specifier)))

    @property
    def is_pin(self) -> bool:
        """Whether it takes one release only, or one file."""
        operators = [part.operator for part in self.requirement.specifier]
        return "==" in operators or self.requirement.url is not None

    @property
    def label(self) -> str:
        """What a build of a certain version or file was made for, such as ``cu``."""
        text = self.requirement.url or str(self.requirement.specifier)
        label = _LOCAL.search(text)
        return label[1] if label else ""

    def admits(self, chosen: Requirement) -> bool:
        """Whether the line and what was chosen can hold together, as far as that is plain."""
        other = self.label and f"+{self.label}" not in str(chosen.specifier)
        if self.requirement.url or other:
            return False
        both = self.requirement.specifier & chosen.specifier
        for part in both:
            if both.contains(part.version.removesuffix(".*"), prereleases=True):
                return True
        return not (self.requirement.specifier and chosen.specifier)


def together(lines: Iterable[Wanted]) -> SpecifierSet:
    """Return the versions that lines require together, whichever accelerator they are built for."""
    wanted = SpecifierSet()
    for line in lines:
        wanted &= line.specifier
    for part in wanted:  # one that the others admit says it all
        if part.operator == "==" and wanted.contains(part.version, prereleases=True):
            return SpecifierSet(str(part))
    return wanted
