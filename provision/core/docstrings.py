"""The texts below the fields of a class, which describe them in the published schemas."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise


@cache
def field_docstrings(cls: type) -> tuple[tuple[str, str], ...]:
    """Return the name of each field that has a docstring below it, and that docstring."""
    return tuple(_described(cls))


def _described(cls: type) -> Iterator[tuple[str, str]]:
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - for mypy
    for field, below in pairwise(definition.body):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
