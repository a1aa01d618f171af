"""Differences between two locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.lockfile.pip import Artifact


@dataclass(frozen=True, slots=True)
class ArtifactChange:
    """The change of one distribution.

    Attributes:
        name: Distribution.
        before: Version in the old lock; None where it is added.
        after: Version in the new lock; None where it is removed.
        via: What requires it, or required it.
    """

    name: str
    before: str | None
    after: str | None
    via: tuple[str, ...]

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
    differing = [
        name
        for name in sorted(old | new)
        if name not in old or name not in new or old[name].sha256 != new[name].sha256
    ]
    return [
        ArtifactChange(
            name,
            before=old[name].version if name in old else None,
            after=new[name].version if name in new else None,
            via=(new if name in new else old)[name].via,
        )
        for name in differing
    ]
