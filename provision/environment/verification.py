"""What comparing an environment with its lock finds."""

from dataclasses import dataclass

from provision.core.findings import Finding


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing an environment with its lock."""

    findings: tuple[Finding, ...]
    """None if the two are equal."""
    distributions: int
    """How many were compared."""
    files: int
    """How many the RECORDs list."""
    size: int
    """Of the files on disk, in bytes."""
    drifted: tuple[str, ...]
    """Distributions that are missing, replaced or damaged."""
    unlocked_records: dict[str, str]
    """Digest of the installed RECORD of each wheel whose RECORD the lock does not have, by the
    SHA-256 of the wheel; empty unless every file was hashed.
    """
    tree: str | None
    """Digest over the paths and hashes of all files, equal on every machine that built the same
    lock; null unless every file was hashed.
    """
