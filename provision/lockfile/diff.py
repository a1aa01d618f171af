"""Differences between two locks."""

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import Version

from provision.lockfile.pip import Artifact


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """The change of one distribution."""

    name: str
    before: str | None  # version in the old lock; None where it is added
    after: str | None  # version in the new lock; None where it is removed
    via: tuple[str, ...]  # what requires it, or required it

    @property
    def kind(self) -> str:
        """``added``, ``removed``, ``up``, ``down``, or ``file`` where only the wheel changed."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        if self.before == self.after:  # another build of one version has another hash
            return "file"
        return "up" if Version(self.after) > Version(self.before) else "down"


def diff_artifacts(before: Sequence[Artifact], after: Sequence[Artifact]) -> list[ArtifactChange]:
    """Return the differences between two locks, by name."""
    old, new = ({artifact.name: artifact for artifact in side} for side in (before, after))
    pairs = ((name, old.get(name), new.get(name)) for name in sorted(old | new))
    return [
        ArtifactChange(name, a.version if a else None, b.version if b else None, (b or a).via)  # type: ignore[union-attr]
        for name, a, b in pairs
        if not (a and b and a.sha256 == b.sha256)
    ]
