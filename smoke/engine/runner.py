"""The suite's own pytest, kept apart from the environment that is checked.

Which packages an environment has is its user's business: the suite must run where there is no
pytest, or an old or broken one. The toolkit's packages are in the folder of its pytest, too, and
none of them may be importable here: only the names below are looked up there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

# Always the suite's: a pytest works with its own version of these only.
OWN = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
# What pytest takes any version of: the environment's, where it has one.
SHARED = frozenset(
    {"py", "packaging", "pygments", "colorama", "exceptiongroup", "tomli"}
)


class RunnerFinder(MetaPathFinder):
    """Finds a few top-level modules in one folder, which is not on ``sys.path``."""

    def __init__(self, folder: Path, names: frozenset[str]) -> None:
        self._folder = str(folder)
        self._names = names

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find a top-level module; submodules are found by the path of their package."""
        if path is not None or fullname not in self._names:
            return None
        return PathFinder.find_spec(fullname, [self._folder], target)


def install(folder: Path) -> None:
    """Let this process import pytest from a folder, and nothing else of it."""
    # A package of the environment may have imported its own pytest by now.
    for name in list(sys.modules):
        if name.partition(".")[0] in OWN:
            del sys.modules[name]
    sys.meta_path.insert(0, RunnerFinder(folder, OWN))
    sys.meta_path.append(RunnerFinder(folder, SHARED))
