"""The checks that a suite declares, read from its files without an import, which would need torch."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from provision.core.limits import read_parsed, read_text

# How a check records a number; ``numbers.step`` records none.
_RECORDING = ("numbers.record", "numbers.within", "numbers.sample")


class SuiteCheck(NamedTuple):
    """One check of a suite."""

    id: str
    conditional: bool  # some targets or devices do not require it
    measures: bool  # each run of it that passes or is slow records a number


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
    functions = (each for each in ast.walk(module) if isinstance(each, ast.FunctionDef))
    for function in functions:
        for call in function.decorator_list:
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check":
                given = {word.arg for word in call.keywords}
                name = ast.literal_eval(call.args[0])
                conditional = bool(given & {"when", "needs"})
                yield SuiteCheck(name, conditional, _measures(function.body))


def _measures(body: list[ast.stmt]) -> bool:
    """Whether statements record a number, whatever they find: not in an ``if``, nor as far as known."""
    return any(
        _measures(statement.body)
        if isinstance(statement, ast.With | ast.For)
        else isinstance(statement, ast.Expr | ast.Assign) and _records(statement)
        for statement in body
        if "numbers.measuring" not in ast.unparse(statement)
    )


def _records(statement: ast.stmt) -> bool:
    """Whether a statement records a number, or calls what gets the numbers to record them."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    for call in calls:
        given = [*call.args, *(word.value for word in call.keywords)]
        if ast.unparse(call.func) in _RECORDING or "numbers" in map(ast.unparse, given):
            return True
    return False
