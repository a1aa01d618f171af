"""What must not be in an environment: one key of a spec, read without the rest of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A distribution that must not be in an environment, and why."""

    name: str
    reason: str


def read_forbidden(folder: Path, target: str) -> tuple[Forbidden, ...]:
    """Return what a target's spec forbids; `lock` and `build` validate the whole of it.

    Raises:
        UsageError: There is no such target.
        SpecError: An entry lacks its name or its reason; all faults of the file are told.
    """
    try:
        data = tomllib.loads((folder / f"{target}.toml").read_text(encoding="utf-8"))
        rows = data["pip"].get("forbid", [])
        return tuple(Forbidden(str(canonicalize_name(r["name"])), r["reason"]) for r in rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        from provision.spec.reader import load_target  # noqa: PLC0415 - slow, and needed for its words only

        found = load_target(folder, target).pip.forbid
        return tuple(Forbidden(entry.name, entry.reason) for entry in found)
