"""Write ``docs/reference/known-wrong.md`` from ``envs/catalog/known-wrong.toml``.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "known-wrong.md"
sys.path.append(str(ROOT))

from provision.catalog.known_wrong import KnownWrong, read_known_wrong  # noqa: E402
from provision.core.project import Project  # noqa: E402

HEAD = """# Wrong results on Intel GPUs: which torch and driver

Made by `docs/draw_known_wrong.py` from `envs/catalog/known-wrong.toml`. These pairs of torch and driver
compute wrong numbers without an error, as public reports say. This project measured none of it.
`detect`, `build` and `doctor` name a row that fits your machine, and `smoke` looks for each class on
the device itself, whatever its driver: on a healthy one the checks `known-wrong.*` pass.

"""
ROW = """## {symptom}

{where}. Right is: {right}. The check `{check}` looks for it. Sources: {sources}.

"""


def where(row: KnownWrong) -> str:
    """Return the affected families, devices, releases and drivers, in words."""
    parts = [f"Families {', '.join(f'`{family}`' for family in row.families)}"]
    if row.devices:
        parts.append(f"devices {', '.join(f'`{device}`' for device in row.devices)}")
    if len(row.systems) == 1:
        parts.append(f"{row.systems[0].title()} only")
    if row.torch:
        parts.append(f"torch `{row.torch}`")
    if row.driver.linux:
        parts.append(f"compute-runtime `{row.driver.linux}` on Linux")
    if row.driver.windows:
        parts.append(f"driver `{row.driver.windows}` on Windows")
    if not row.has_ranges:
        parts.append("which versions is not known")
    return ", ".join(parts)


def link(source: str) -> str:
    """Return a source as a link where it is an issue."""
    repository, _, number = source.partition("#")
    if not number:
        return source
    return f"[{source}](https://github.com/{repository}/issues/{number})"


def draw() -> str:
    """Return the page."""
    rows = read_known_wrong(Project(ROOT).catalog).values()
    sections = [
        ROW.format(
            symptom=row.symptom[0].upper() + row.symptom[1:],
            where=where(row),
            right=row.right,
            check=row.check,
            sources=", ".join(map(link, row.sources)),
        )
        for row in rows
    ]
    return HEAD + "".join(sections).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
