"""The shape that every verb has, so that one file is all that a new one takes."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import parser, verb_names

if TYPE_CHECKING:
    from types import ModuleType


def module_of(verb: str) -> ModuleType:
    return import_module(f"provision.cli.verbs.{verb}")


def names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


@pytest.mark.parametrize("verb", verb_names())
def test_every_result_of_a_verb_has_a_view(verb: str) -> None:
    """Of the package ``ui``; that it takes this result is what the constructor's types say."""
    tree = ast.parse(inspect.getsource(module_of(verb)))
    views = set()
    handlers = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").startswith("provision.ui."):
                views |= {alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef):
            handlers[node.name] = node
    annotation = handlers["handle"].returns
    assert annotation is not None
    assert names_in(annotation) <= {"Outcome", "int"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Outcome":
            assert names_in(node.args[1]) & views


@pytest.mark.parametrize("verb", verb_names())
def test_one_verb_parses_alike_alone_and_among_all(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    helps = []
    for made in (parser(), parser([verb])):
        with pytest.raises(SystemExit):
            made.parse_args([verb, "--help"])
        helps.append(capsys.readouterr().out)
    assert helps[0] == helps[1]
    first_line = (module_of(verb).__doc__ or "").partition("\n")[0]
    assert first_line.rstrip(".") in " ".join(helps[0].split())
