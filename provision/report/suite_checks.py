"""The checks that a suite declares, read from its files without an import, which would need torch."""

import ast
import json
from collections.abc import Iterator
from functools import cache
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
        checks += _checks_in(read_text(file))
    known = {}
    file = folder / "engine" / "known.json"
    if file.is_file():
        for accelerator, row in read_parsed(file, json.loads).items():
            if "checks" in row:
                known[accelerator] = row["checks"]
    return Suite(tuple(checks), known)


@cache  # each evidence of a matrix is compared with the suite
def _checks_in(text: str) -> tuple[SuiteCheck, ...]:
    return tuple(_declared(ast.parse(text)))


def _declared(module: ast.Module) -> Iterator[SuiteCheck]:
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in function.decorator_list:
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "check":
                given = {word.arg for word in call.keywords}
                name = ast.literal_eval(call.args[0])
                conditional = bool(given & {"when", "needs"})
                yield SuiteCheck(name, conditional, _measures(function.body))


def _measures(body: list[ast.stmt]) -> bool:
    """Whether statements record a number, whatever they find: not in an ``if``, nor as far as known."""
    for statement in body:
        if "numbers.measuring" in ast.unparse(statement):
            continue
        if isinstance(statement, ast.With | ast.For):
            records = _measures(statement.body)
        else:
            is_plain = isinstance(statement, ast.Expr | ast.Assign)
            records = is_plain and _records(statement)
        if records:
            return True
    return False


def _records(statement: ast.stmt) -> bool:
    """Whether a statement records a number, or calls what gets the numbers to record them."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            values = [*call.args, *(word.value for word in call.keywords)]
            gets_numbers = "numbers" in map(ast.unparse, values)
            if gets_numbers or ast.unparse(call.func) in _RECORDING:
                return True
    return False
