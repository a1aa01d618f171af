"""Import what a spec requires, in fresh processes: as a program would, one package at a time."""

from __future__ import annotations

import importlib
import re
from importlib import metadata

# Top-level folders that many wheels install by mistake, and that no program imports.
NOT_CODE = frozenset({"test", "tests", "doc", "docs", "example", "examples", "benchmarks"})


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def top_level() -> dict[str, list[str]]:
    """Return the public modules of every installed distribution, by its normalised name."""
    found: dict[str, list[str]] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(normal(name), [])
    for module, owners in sorted(metadata.packages_distributions().items()):
        if module.isidentifier() and not module.startswith("_") and module not in NOT_CODE:
            for owner in set(owners):
                found.setdefault(normal(owner), []).append(module)
    return found


def import_modules(modules: list[str]) -> int:
    """Import modules one after the other; return how many."""
    for module in modules:
        importlib.import_module(module)
    return len(modules)
