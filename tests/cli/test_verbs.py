"""The shape that every verb has, so that one file is all that a new one takes."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from provision.cli.main import parser, verb_names
from provision.cli.outcome import Outcome

if TYPE_CHECKING:
    from types import ModuleType


def module_of(verb: str) -> ModuleType:
    return import_module(f"provision.cli.verbs.{verb}")


def results(node: ast.expr) -> set[str]:
    """Return the names of the results in an annotation such as ``Outcome[list[A]] | int``."""
    return {
        part.id
        for found in ast.walk(node)
        if isinstance(found, ast.Subscript) and ast.unparse(found.value) == "Outcome"
        for part in ast.walk(found.slice)
        if isinstance(part, ast.Name) and part.id != "list"
    }


def shown(tree: ast.Module) -> set[str]:
    """Return the names of the results that the views of a module take."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("provision.ui."):
            for alias in node.names:
                if alias.name.startswith("show_"):
                    view = getattr(import_module(node.module or ""), alias.name)
                    found.add(next(iter(inspect.signature(view).parameters.values())).annotation)
    return found


@pytest.mark.parametrize("verb", verb_names())
def test_every_result_of_a_verb_has_a_view(verb: str) -> None:
    tree = ast.parse(inspect.getsource(module_of(verb)))
    handlers = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    annotation = handlers["handle"].returns
    assert annotation is not None
    assert ast.unparse(annotation) != "Outcome"
    assert results(annotation) <= shown(tree)


def test_a_result_without_a_view_cannot_be_returned() -> None:
    with pytest.raises(TypeError, match="show"):
        Outcome("result")  # type: ignore[call-arg]


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
    assert (module_of(verb).__doc__ or "").split("\n")[0].rstrip(".") in " ".join(helps[0].split())
