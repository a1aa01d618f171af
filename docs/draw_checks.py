"""Write ``docs/reference/checks.md``: each check, and the faults it must find.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "checks.md"
sys.path.append(str(ROOT))

from smoke.engine.check import IMPORT  # noqa: E402
from smoke.engine.check_files import check_files, declared  # noqa: E402
from tests.smoke.faults import FAULTS  # noqa: E402

HEAD = """# What is checked, and which faults each check must find

Made from the code by `docs/draw_checks.py`. `quick` checks run with every build, all of them with
`smoke --full`. No target requires every check: its report lists the others with the reason. The tests
inject each fault into the CPU or a pretend accelerator, and then the check of its row must fail.

| check | runs | what it proves | faults that it must find |
|---|---|---|---|
"""


def draw() -> str:
    """Return the page."""
    rows = [(IMPORT["id"], IMPORT["title"], False)]
    rows += [(each.id, each.title, each.full) for each in declared(check_files())]
    return HEAD + "".join(
        f"| `{name}` | {'full' if full else 'quick'} | {title} | {'; '.join(_faults(name))} |\n"
        for name, title, full in rows
    )


def _faults(check: str) -> list[str]:
    aimed = [
        each for each in FAULTS if each.code and each.check.partition("@")[0] == check
    ]
    return [each.name.replace("_", " ") for each in aimed]


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
