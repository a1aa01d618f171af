"""What is installed, and the import of what a spec requires, as a program would import it."""

import functools
import importlib
import re
import sys
from importlib import metadata

from smoke.engine.expect import Expect
from smoke.engine.import_order import OPERATOR_MODULES

# Top-level folders that many wheels install by mistake, and that no program imports.
NOT_CODE = frozenset(
    {"test", "tests", "doc", "docs", "example", "examples", "benchmarks"}
)


def normal(name: str) -> str:
    """Return a distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def installed() -> dict[str, set[str]]:
    """Return every installed distribution with its versions: two, where an old one was left."""
    versions: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            versions.setdefault(normal(name), set()).add(distribution.version)
    return versions


@functools.cache
def top_level() -> dict[str, list[str]]:
    """Return the public modules of every installed distribution, by its normalised name."""
    modules: dict[str, list[str]] = {name: [] for name in installed()}
    owners_of = metadata.packages_distributions()
    for module in sorted(owners_of):
        is_public = module.isidentifier() and not module.startswith("_")
        if is_public and module not in NOT_CODE:
            for owner in set(owners_of[module]):
                modules.setdefault(normal(owner), []).append(module)
    return modules


def to_import(expect: Expect) -> dict[str, list[str]]:
    """Return the modules of what the spec requires, but for what was imported already.

    That is what `identity.import` has loaded, and what an earlier run has whose result is still valid.
    """
    installed = top_level()
    loaded = {"torch": "torch", **OPERATOR_MODULES}
    modules = {}
    for name in expect.requirements:
        if name in expect.imported:
            continue
        if installed.get(name) and loaded.get(name) not in sys.modules:
            modules[name] = installed[name]
    return modules


def import_modules(modules: list[str]) -> int:
    """Import modules one after the other; return how many."""
    for module in modules:
        importlib.import_module(module)
    return len(modules)
