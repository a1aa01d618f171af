"""Write ``docs/explanation/modules.md``: what each module is for, and the numbers that it sets.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import ast
import re
from itertools import groupby, takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "modules.md"
PACKAGES = ("provision", "smoke")
HEAD = """# The modules

Made from the code by `docs/draw_modules.py`: what each module and table of `provision/` and `smoke/`
is for, and the numbers that it sets. Paths are relative to `provision/`. Tests are in the same
folders of `tests/`, but for exports (`tests/commands/test_export.py`), limits of `core/limits.py`
(`tests/attacks/`), rules on the machine (`tests/commands/detect/field.toml`), tables and what a verb
prints (`tests/ui/test_terminal.py`, `tests/ui/test_console.py`). [Architecture](architecture.md) says
what the packages are for, `CONTRIBUTING.md` what else a change needs.
"""
TABLE = """
## {package}

| file | what it is for | numbers |
|---|---|---|
"""


def draw() -> str:
    """Return the page."""
    page = HEAD
    files = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in {".py", ".toml"} and path.name != "__init__.py":
                files.append(path)
    for folder, of_folder in groupby(sorted(files, key=_folder), key=_folder):
        page += TABLE.format(package=folder)
        for path in of_folder:
            page += _row(path)
    return page


def _folder(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix()


def _row(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        purpose, numbers = _first_comment(text), []
    else:
        tree = ast.parse(text)
        purpose, numbers = ast.get_docstring(tree) or "", _numbers(tree)
    first = " ".join(purpose.partition("\n\n")[0].split())
    plain = re.sub(r":\w+:`(.+?)`", r"`\1`", first)
    cell = plain.replace("``", "`").replace("|", "\\|")
    for sibling in set(re.findall(r"(?<![\w/])\w+\.(?:py|toml|json)\b", cell)):
        if (path.parent / sibling).exists():
            cell = cell.replace(sibling, _name(path.parent / sibling))
    return f"| `{_name(path)}` | {cell} | {', '.join(numbers)} |\n"


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removeprefix("provision/")


def _first_comment(text: str) -> str:
    """Return the comment at the head of a table, up to its first full stop."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ") for line in lines)
    return comment.partition(". ")[0].rstrip(".") + "."


def _numbers(tree: ast.Module) -> list[str]:
    """Return the numbers that a module sets by name, as it writes them."""
    numbers = []
    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            continue
        names = _written(statement.targets[0])
        if names.isupper() and _is_of_numbers(statement.value):
            numbers.append(f"`{names} = {_written(statement.value)}`")
    return numbers


def _written(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) else text


def _is_of_numbers(value: ast.expr) -> bool:
    """Whether a value is a number, several, or a table of numbers by name."""
    numbers = [value]
    if isinstance(value, ast.Dict):
        numbers = value.values
    elif isinstance(value, ast.Tuple):
        numbers = value.elts
    return all(_is_number(node) for number in numbers for node in ast.walk(number))


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in {int, float}
    return isinstance(node, ast.BinOp | ast.operator | ast.UnaryOp | ast.unaryop)


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
