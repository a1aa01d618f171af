"""The table of errors: each has its texts, is raised, and gets the facts that its texts name."""

from __future__ import annotations

import ast
import re
import string
import tomllib

import pytest

from provision.core.errors import Exit, SpecError, ToolError, UsageError
from provision.core.project import PACKAGE

TABLE = tomllib.loads((PACKAGE / "core" / "errors.toml").read_text(encoding="utf-8"))


def raised() -> list[tuple[str, set[str], str]]:
    """Return the name, the facts and the place of each error that the code takes of the table."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                found += [
                    (*each, f"{path.name}:{function.name}") for each in calls(function)
                ]
    return found


def calls(function: ast.FunctionDef) -> list[tuple[str, set[str]]]:
    """Return the calls of a function; a name or ``**facts`` may be assigned before."""
    nodes = list(ast.walk(function))
    assigned = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found = []
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        if re.fullmatch(r"(Spec|Tool|Usage)Error\.of", ast.unparse(node.func)):
            name = assigned.get(getattr(node.args[0], "id", ""), node.args[0])
            names = [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]
            facts = {word.arg for word in node.keywords if word.arg}
            for word in node.keywords:
                if word.arg is None:
                    table = assigned[getattr(word.value, "id", "")]
                    assert isinstance(table, ast.Dict)
                    facts |= {ast.literal_eval(key) for key in table.keys if key}
            found += [(ast.literal_eval(each), facts) for each in names]
    return found


def test_each_error_is_raised_with_the_facts_that_its_texts_name() -> None:
    assert {name for name, _, _ in raised()} == TABLE.keys()
    for name, facts, place in raised():
        texts = "".join(TABLE[name].values())
        wanted = {field for _, field, _, _ in string.Formatter().parse(texts) if field}
        assert facts | {"program"} == wanted | {"program"}, f"{name} in {place}"


@pytest.mark.parametrize("name", TABLE)
def test_each_error_says_what_failed_and_what_to_do(name: str) -> None:
    assert TABLE[name].keys() <= {"what", "cause", "remedy"}
    assert all(TABLE[name].values())
    assert "what" in TABLE[name]
    assert TABLE[name].keys() & {"cause", "remedy"}


def test_an_error_has_its_exit_code() -> None:
    codes = [kind("x").exit_code for kind in (SpecError, ToolError, UsageError)]
    assert codes == [Exit.USAGE, Exit.TOOL, Exit.USAGE]
