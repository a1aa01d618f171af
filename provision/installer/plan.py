"""Where an installation takes artifacts from, and what it is about to do."""

from dataclasses import dataclass
from pathlib import Path

from provision.core.text import plural, size


@dataclass(frozen=True, slots=True)
class ArtifactSources:
    """Where artifacts may come from; the lock's hashes decide what is installed."""

    wheelhouses: tuple[Path, ...]  # searched before any index
    # URL by name; "default" is the user's mirror, None uv's own.
    indexes: dict[str, str | None]
    offline: bool

    @property
    def remedy(self) -> str:
        """How files are supplied that none of these has."""
        folder = "put them into a folder and name it with --wheelhouse DIR"
        return folder if self.offline else f"check the network, or {folder}"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What an installation is about to download and write."""

    packages: int
    """How many packages."""
    local: int
    """How many of them are in a wheelhouse."""
    fetch: int
    """Bytes of the others, as far as the lock has sizes; uv's cache may hold some."""
    unsized: int
    """How many of the others have no size in the lock."""
    disk: int
    """Bytes of the environment, approximately."""

    def __str__(self) -> str:
        text = f"{plural(self.packages, 'package')}: {self.local} from wheelhouses"
        if rest := self.packages - self.local:
            most = size(self.fetch)
            if self.unsized:
                most += f" and {plural(self.unsized, 'file')} of unknown size"
            # Only uv knows what its cache has, once it installs.
            text += f", {rest} from uv's cache or downloaded (at most {most})"
        return f"{text}, about {size(self.disk)} on disk"
