"""Write ``docs/reference/findings.md``: every code that a log, an environment or a check can be given.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "findings.md"
sys.path.append(str(ROOT))

from smoke.engine.finding import TABLE  # noqa: E402
from tests.smoke.faults import FAULTS  # noqa: E402

FINDINGS = """# Findings

Made from the code by `docs/draw_findings.py`; `nox -s docs` makes it again.

Each finding has a code, which is stable: scripts may rely on it. An `error` breaks the program, a
`warning` may break it, a `note` is information. A screen also shows the remedy, fitted to the machine.
[Diagnose a failure](../how-to/diagnose.md) explains how a log and an environment are read, and what to
do where no rule fits.

## From the doctor

"""
INSTALLED = """
## From build and verify

Words in braces are filled in.

"""
CHECKS = """## From the checks

Each has its numbers as evidence. A check whose error a rule of the doctor recognises reports that
rule's code.

"""
COMPARED = """## From a comparison with earlier reports

The check that a finding is about, what changed on the host since the last good report, and the
numbers are its evidence.

"""


def draw() -> str:
    """Return the page."""
    page = f"{FINDINGS}{_doctor()}{INSTALLED}{_table('environment/findings')}\n"
    page += CHECKS
    page += "| code | level | why | remedy | checks with a fault that shows it |\n"
    page += "|---|---|---|---|---|\n"
    shown: dict[str, set[str]] = {}
    for fault in FAULTS:
        shown.setdefault(fault.code or "", set()).add(
            f"`{fault.check.partition('@')[0]}`"
        )
    for code in sorted(TABLE.keys() | shown.keys() - {""}):
        texts = TABLE.get(code, {})
        why, remedy = (
            texts.get(key) or "see the finding" for key in ("cause", "remedy")
        )
        words = (
            texts.get("level", "error"),
            why,
            remedy,
            ", ".join(sorted(shown.get(code, ()))),
        )
        page += f"| `{code}` | {' | '.join(map(_cell, words))} |\n"
    return f"{page}\n{COMPARED}{_table('report/findings')}"


def _doctor() -> str:
    """Return what the doctor may find; the remedy depends on the machine, so it is not shown."""
    table = tomllib.loads((ROOT / "provision/doctor/findings.toml").read_text("utf-8"))
    return "| code | level | what you see | why |\n|---|---|---|---|\n" + "".join(
        f"| `{code}` | {each['level']} | {_cell(each['symptom'])} | {_cell(each['cause'])} |\n"
        for code, each in sorted(table.items())
    )


def _table(name: str) -> str:
    table = tomllib.loads((ROOT / "provision" / f"{name}.toml").read_text("utf-8"))
    page = "| code | level | what you see | why | remedy |\n|---|---|---|---|---|\n"
    for key, each in sorted(table.items()):
        words = (
            each.get("level", "error"),
            each["symptom"],
            each["cause"],
            each["remedy"],
        )
        page += f"| `{each.get('code', key)}` | {' | '.join(map(_cell, words))} |\n"
    return page


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
