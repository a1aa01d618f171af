"""What files say together: requirements, each with its place, and what is wrong with them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Marker

from provision.core.hashing import sha256_bytes
from provision.core.limits import require_inside
from provision.spec.model import Target
from provision.spec.pyproject import FAULTS, relative
from provision.spec.submodules import not_fetched

OTHER_INDEX = ": ignored, as [pip.index] of the spec decides that"


@dataclass
class Collected:
    """What files say together, for a target or for any."""

    root: Path
    target: Target | None = None
    requirements: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    # Of constraints, which can have the text of a requirement.
    limits: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    # What each file says, in the order of reading; one that only constrains as well.
    said: dict[Path, list[str]] = field(default_factory=dict)
    _including: list[Path] = field(default_factory=list)  # each the one after it
    _begun: set[tuple[Path, str]] = field(default_factory=set)
    # How much of requirements, constraints and own packages has its place.
    _placed: list[int] = field(default_factory=lambda: [0, 0, 0])

    @property
    def read(self) -> list[Path]:
        """The files that were read."""
        return list(self.said)

    @property
    def digests(self) -> dict[str, str]:
        """A digest of what each file says, by its path: of requirements, and of no comment."""
        digests = {}
        for path, texts in self.said.items():
            digest = sha256_bytes("\n".join(texts).encode())
            digests[relative(path, self.root)] = digest[:12]
        return digests

    @contextlib.contextmanager
    def _reading(self, path: Path, part: str) -> Iterator[bool]:
        """Report what keeps a file from being read as a ValueError; False where it was read."""
        new = (path, part) not in self._begun
        self._begun.add((path, part))
        try:
            if not part.startswith("-e"):
                require_inside(path, self.root)
            self.said.setdefault(path, [])
            yield new
        except (OSError, *FAULTS) as error:
            reason = getattr(error, "strerror", None) or error
            if str(reason).startswith(f"{path}"):  # of a file that it includes
                raise
            hint = ""
            if isinstance(error, FileNotFoundError):
                hint = not_fetched(path, self.root)
            raise ValueError(f"{path}: {reason}{hint}") from error

    @contextlib.contextmanager
    def _at(self, path: Path, number: int) -> Iterator[None]:
        """Give what is added its place, and what is wrong with it."""
        lists = (self.requirements, self.constraints, self.local)
        before = list(map(len, lists))
        place = f"{relative(path, self.root)}, line {number}"
        try:
            yield
        except (OSError, *FAULTS) as error:  # such as a name that is too long
            reason = getattr(error, "strerror", None) or error
            self.faults.append(f"{path}, line {number}: {reason}")
        for which, (texts, start) in enumerate(zip(lists, before, strict=True)):
            # Those of included files have their places already.
            for text in texts[max(start, self._placed[which]) :]:
                self.said[path].append(text)
                places = self.limits if texts is self.constraints else self.places
                places.setdefault(text, place)
            self._placed[which] = len(texts)

    def _applies(self, marker: str) -> bool:
        markers = Marker(marker)
        if self.target is None:
            return True
        return markers.evaluate(self.target.markers)
