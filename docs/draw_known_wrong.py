"""Write the pages of the numbers that are known to be wrong, from ``envs/catalog/known-wrong.toml``.

``docs/errors/wrong-<row>.md`` for each row, under the words that people paste into a search, and
``docs/reference/known-wrong.md``, which lists them. ``nox -s docs`` runs it, and
``tests/test_docs.py`` fails where a committed page differs.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = "reference/known-wrong.md"
sys.path.append(str(ROOT))

from provision.catalog.known_wrong import KnownWrong, read_known_wrong  # noqa: E402
from provision.commands.known_wrong import pinned_torch  # noqa: E402
from provision.core.project import Project  # noqa: E402
from provision.host.known_wrong import contains_release  # noqa: E402
from provision.spec.model import Target  # noqa: E402
from provision.spec.reader import load_target, target_names  # noqa: E402

PROJECT = Project(ROOT)
FULL = {"memory.exhausted"}  # checks that the quick suite leaves out
HEAD = """# Wrong results on Intel GPUs: which torch and driver

Made by `docs/draw_known_wrong.py` from `envs/catalog/known-wrong.toml`. These pairs of torch and driver
compute wrong numbers without an error, or end the process, as public reports say. This project measured
none of it. `detect`, `build`, `lock`, `targets` and `doctor` name a row that fits your machine or your
target, and `smoke` looks for each class on the device itself, whatever its driver: on a healthy one the
checks `known-wrong.*` pass. If you find another wrong result, `provision update --known-wrong FILE`
adds it: the file has rows as `envs/catalog/known-wrong.toml`, each with its source.

| what | torch | driver | row |
|---|---|---|---|
"""
LINE = "| [{title}](../errors/wrong-{name}.md) | {torch} | {driver} | `{name}` |\n"
PAGE = """# {title}

{symptom}. Your program is not the cause: this is known for {where}.

**Right is:** {right}.

**Is it your machine?** {detect}The check `{check}` asks the device itself:
`provision smoke {target}{full}`.

{targets}

Sources: {sources}. This project measured none of it;
[all that is known to be wrong](../reference/known-wrong.md).

Made by `docs/draw_known_wrong.py` from `envs/catalog/known-wrong.toml`.
"""
DETECT = "`provision detect` names `{name}` where a GPU and its driver fit. "


def where(row: KnownWrong) -> str:
    """Return the affected families, devices, releases and drivers, in words."""
    parts = [f"families {', '.join(f'`{family}`' for family in row.families)}"]
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


def drivers(row: KnownWrong) -> str:
    """Return the affected drivers of each system, in a cell of a table."""
    parts = [row.driver.linux and f"compute-runtime `{row.driver.linux}`"]
    parts.append(row.driver.windows and f"Windows `{row.driver.windows}`")
    return ", ".join(filter(None, parts)) or "any, or not known"


def concerned(row: KnownWrong) -> list[Target]:
    """Return the supported targets of a row's families and systems."""
    found = []
    for name in target_names(PROJECT.specs):
        target = load_target(PROJECT.specs, name)
        system = "windows" if target.platform.startswith("win") else "linux"
        shared = set(row.families) & set(target.hardware.families)
        if target.status == "supported" and shared and system in row.systems:
            found.append(target)
    return found


def of_targets(row: KnownWrong) -> str:
    """Return which targets have a torch that is not affected, as a sentence."""
    if not row.has_ranges:
        return "Which releases of torch and of the driver are right is not known."
    if not row.torch:
        return "It follows the driver, not the release of torch: no target avoids it."
    spared = [
        f"`{target.name}` (torch {pinned_torch(target)})"
        for target in concerned(row)
        if not contains_release(row.torch, pinned_torch(target))
    ]
    return f"**Targets** whose torch is not affected: {', '.join(spared)}."


def page(name: str, row: KnownWrong) -> str:
    """Return the page of one row."""
    return PAGE.format(
        title=row.title,
        symptom=row.symptom[0].upper() + row.symptom[1:],
        where=where(row),
        right=row.right,
        detect=DETECT.format(name=name) if row.has_ranges else "",
        check=row.check,
        full=" --full" if row.check in FULL else "",
        target=concerned(row)[0].name,
        targets=of_targets(row),
        sources=", ".join(map(link, row.sources)),
    )


def pages() -> dict[str, str]:
    """Return the text of each page by its path in docs/."""
    rows = read_known_wrong(PROJECT.catalog)
    lines = [
        LINE.format(
            title=row.title,
            name=name,
            torch=f"`{row.torch}`" if row.torch else "any",
            driver=drivers(row),
        )
        for name, row in rows.items()
    ]
    made = {f"errors/wrong-{name}.md": page(name, row) for name, row in rows.items()}
    return made | {INDEX: HEAD + "".join(lines)}


if __name__ == "__main__":
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
