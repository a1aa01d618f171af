"""Write ``docs/reference/own-findings.md``: what the checks, ``verify`` and comparisons report.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "own-findings.md"
sys.path.append(str(ROOT))

from tests.smoke.faults import FAULTS  # noqa: E402

FINDINGS = """# What checks and verify find

Made from the code by `docs/draw_findings.py`; `nox -s docs` makes it again.

[What the findings mean](findings.md) has the codes of the doctor; a check whose error one of its
rules recognises reports that code instead. Below are those of `verify` and `build`, in braces
what is filled in.

"""
CHECKS = """## From the checks

Each has its numbers as evidence, and a remedy.

"""
COMPARED = """## From a comparison with earlier reports

The check that a finding is about, what changed on the host since the last good report, and the
numbers are its evidence. The codes: """
CALLS = ("explain", "finding", "Finding", "_finding", "died")


def draw() -> str:
    """Return the page of the findings that come from the toolkit's own measurements."""
    table = tomllib.loads((ROOT / "provision" / "environment" / "findings.toml").read_text("utf-8"))
    rows = {each.get("code", name): each for name, each in sorted(table.items())}
    page = FINDINGS + "| code | level | what you see | why | remedy |\n|---|---|---|---|---|\n"
    page += "".join(
        f"| `{code}` | {each.get('level', 'error')} | {_cell(each['symptom'])} | "
        f"{_cell(each['cause'])} | {_cell(each['remedy'])} |\n"
        for code, each in rows.items()
    )
    page += f"\n{CHECKS}| code | why | checks with a fault that shows it |\n|---|---|---|\n"
    shown: dict[str, list[str]] = {}
    for fault in FAULTS:
        shown.setdefault(fault.code or "", []).append(f"`{fault.check.partition('@')[0]}`")
    health = json.loads((ROOT / "smoke" / "health.json").read_text("utf-8"))["findings"]
    causes = _coded(ROOT / "smoke") | {code: {each["cause"]} for code, each in health.items()}
    for code in sorted(causes.keys() | shown.keys() - {""}):
        why = "; or ".join(sorted(causes.get(code, ()))) or "see its evidence"
        checks = ", ".join(sorted(set(shown.get(code, ()))))
        page += f"| `{code}` | {_cell(why)} | {checks} |\n"
    compared = ", ".join(f"`{code}`" for code in sorted(_coded(ROOT / "provision" / "report")))
    return f"{page}\n{COMPARED}{compared}.\n"


def _coded(folder: Path) -> dict[str, set[str]]:
    """Return the codes that the modules of a folder report, each with the causes they give."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            named = {word.arg: word.value for word in node.keywords}
            words = [*node.args, *([named["code"]] if "code" in named else [])]
            texts = [w.value for w in words if isinstance(w, ast.Constant)]
            codes = [
                t for t in texts if isinstance(t, str) and re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", t)
            ]
            if codes and ("cause" in named or ast.unparse(node.func) in CALLS):
                found.setdefault(codes[0], set()).update(
                    filter(None, [_literal(named.get("cause"))])
                )
    return found


def _literal(node: ast.expr | None) -> str:
    """Return a text of the code, with … for what is known only when it runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    parts = node.values if isinstance(node, ast.JoinedStr) else []
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
