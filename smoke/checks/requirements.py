"""What is installed, and the import of what a spec requires, as a program would import it."""

from __future__ import annotations

import importlib
import re
from importlib import metadata

# Top-level folders that many wheels install by mistake, and that no program imports.
NOT_CODE = frozenset(
    {"test", "tests", "doc", "docs", "example", "examples", "benchmarks"}
)


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, set[str]]:
    """Return every installed distribution with its versions: two, where an old one was left."""
    found: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(normal(name), set()).add(distribution.version)
    return found


def top_level() -> dict[str, list[str]]:
    """Return the public modules of every installed distribution, by its normalised name."""
    found: dict[str, list[str]] = {name: [] for name in installed()}
    for module, owners in sorted(metadata.packages_distributions().items()):
        if (
            module.isidentifier()
            and not module.startswith("_")
            and module not in NOT_CODE
        ):
            for owner in set(owners):
                found.setdefault(normal(owner), []).append(module)
    return found


def import_modules(modules: list[str]) -> int:
    """Import modules one after the other; return how many."""
    for module in modules:
        importlib.import_module(module)
    return len(modules)
