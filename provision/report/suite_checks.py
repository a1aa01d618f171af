"""The checks that a suite declares, read from its files without an import, which would need torch."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from provision.core.limits import read_parsed, read_text


class SuiteCheck(NamedTuple):
    """One check of a suite."""

    id: str
    conditional: bool  # some targets or devices do not require it


class Suite(NamedTuple):
    """What a suite requires."""

    checks: tuple[SuiteCheck, ...]
    known: dict[str, dict[str, str]]  # accelerator -> check that it has not -> why


def read_suite(folder: Path) -> Suite:
    """Read the suite in a folder, whose checks are marked as ``smoke/engine/check.py`` does."""
    checks: list[SuiteCheck] = []
    for file in sorted((folder / "checks").glob("test_*.py")):
        checks += _checks_in(ast.parse(read_text(file)))
    file, known = folder / "engine" / "known.json", {}
    if file.is_file():
        table = read_parsed(file, json.loads)
        known = {name: row["checks"] for name, row in table.items() if "checks" in row}
    return Suite(tuple(checks), known)


def _checks_in(module: ast.Module) -> Iterator[SuiteCheck]:
    for function in ast.walk(module):
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check":
                given = {word.arg for word in call.keywords}
                name = ast.literal_eval(call.args[0])
                yield SuiteCheck(name, bool(given & {"when", "needs"}))
