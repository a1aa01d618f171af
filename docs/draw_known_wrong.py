"""Write the matrix of what is proven and what is known to be wrong, and a page for each wrong number.

``docs/errors/wrong-<row>.md`` for each row of ``envs/catalog/known-wrong.toml``, under the words that
people paste into a search, and ``docs/reference/known-wrong.md``: these rows, and the targets that wait
for a proof. ``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where a committed page differs.
The signed reports of ``docs/evidence`` are in no committed page, which each of them would make stale:
``site_hooks.py`` draws the page with them when the site is built. Their texts were written by anybody:
see `escaped`.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = "reference/known-wrong.md"
sys.path.append(str(ROOT))

from provision.catalog.known_wrong import ANY, KnownWrong, read_known_wrong  # noqa: E402
from provision.commands.known_wrong import is_for, pinned_torch  # noqa: E402
from provision.commands.matrix import Cell, matrix  # noqa: E402
from provision.commands.submissions import Entry, read_matrix  # noqa: E402
from provision.core.project import Project  # noqa: E402
from provision.host.known_wrong import contains_release  # noqa: E402
from provision.spec.model import Target  # noqa: E402
from provision.spec.reader import load_target, target_names  # noqa: E402

PROJECT = Project(ROOT)
FULL = {
    "memory.exhausted",
    "operators.variants",
}  # checks that the quick suite leaves out
HEAD = """# What is proven, and what is wrong: torch, driver, device, system

Made by `docs/draw_known_wrong.py` from `envs/catalog/known-wrong.toml` and the locks. {reports}

| state | means |
|---|---|
| **green** | somebody ran all checks on this device, and every required one passed |
| **slow** | the same, and a check of speed warned |
| **wrong** | public reports: wrong numbers without an error, or a dead process |
| unknown | nobody has proven this torch with the target; the command that does |

**Signed reports.** Anybody can sign one, with a key of their own: the fingerprint tells which reports
are of one signer, not who that is ([what a signature says](../how-to/prove.md#what-a-signature-says)).
A **stale** report is of an earlier lock or suite of checks than the site. [You have such a
device?](../how-to/prove.md) One command and about five minutes add a report.

**Wrong numbers.** Each row has public reports as its sources; a row that this project measured too
says on what. `detect`, `build`, `lock`, `targets` and `doctor` name a row that fits your machine or
your target, and `smoke` looks for each class on the device itself, whatever its driver: on a healthy
one the checks `known-wrong.*` pass. Where every GPU of a row is wrong, no check fails: the report
counts it as "known to fail". If you find another wrong result, `provision update --known-wrong FILE`
adds it: the file has rows as `envs/catalog/known-wrong.toml`, each with its source.

Families are those of [the list of GPUs](machines.md). Drivers of Intel GPUs on Linux are releases of
compute-runtime, others are the driver's own version; a signed report has what torch says.
"""
# What the page says of signed reports: in the repository, and on the site.
REPORTS = {
    False: "The site adds the signed\nreports in `docs/evidence` when `nox -s docs` builds it.",
    True: "The signed\nreports are those that `docs/evidence` had when this site was built.",
}
TABLE = """
## {title}

| device | system | torch | driver | state | see |
|---|---|---|---|---|---|
"""
TITLES = {
    "intel": "Intel GPUs",
    "nvidia": "NVIDIA GPUs",
    "apple": "Apple",
    "cpu": "CPU",
}
STATES = ("green", "slow", "wrong", "unknown")
PAGE = """# {title}

{symptom}. Your program is not the cause: this is known for {where}.

**Right is:** {right}.

**Is it your machine?** {detect}{check}:
`provision smoke {target}{full}`.

{targets}

Sources: {sources}. {measured};
[all that is known to be wrong](../reference/known-wrong.md).

Made by `docs/draw_known_wrong.py` from `envs/catalog/known-wrong.toml`.
"""
DETECT = "`provision detect` names `{name}` where a GPU and its driver fit. "
# What the page says of the check, by whether it is known to fail.
CHECKS = {
    False: "The check `{check}` asks the device itself",
    True: 'With an affected torch the check `{check}` counts it as "known to fail"; with any other one '
    "it asks the device itself",
}


def where(row: KnownWrong) -> str:
    """Return the affected families, devices, releases and drivers, in words."""
    parts = [f"families {', '.join(f'`{family}`' for family in row.families)}"]
    if row.families == ANY:
        parts = [row.gpus]
    if row.devices:
        parts.append(f"devices {', '.join(f'`{device}`' for device in row.devices)}")
    if len(row.systems) == 1:
        parts.append(f"{row.systems[0].title()} only")
    if row.torch:
        parts.append(f"torch `{row.torch}`")
    if row.driver.linux:
        name = "compute-runtime" if row.vendor == "intel" else "driver"
        parts.append(f"{name} `{row.driver.linux}` on Linux")
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


def concerned(row: KnownWrong) -> list[Target]:
    """Return the supported targets of a row's families and systems."""
    found = []
    for name in target_names(PROJECT.specs):
        target = load_target(PROJECT.specs, name)
        if target.status == "supported" and is_for(row, target):
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
        check=CHECKS[row.known_to_fail].format(check=row.check),
        full=" --full" if row.check in FULL else "",
        target=concerned(row)[0].name,
        targets=of_targets(row),
        sources=", ".join(map(link, row.sources)),
        measured=f"This project measured it on {row.measured}"
        if row.measured
        else "This project measured none of it",
    )


def escaped(text: str) -> str:
    """Return a text that somebody else wrote, which neither Markdown nor HTML reads as more."""
    return re.sub(r"[^A-Za-z0-9 .,+()-]", lambda sign: f"&#{ord(sign[0])};", text)


def coded(text: str, otherwise: str) -> str:
    """Return a specifier of ours as code."""
    return f"`{text}`" if text else otherwise


def line_of(cell: Cell, rows: dict[str, KnownWrong]) -> str:
    """Return a row of the table."""
    device = ", ".join(f"`{family}`" for family in cell.families if family) or "any"
    torch, driver = coded(cell.torch, "any"), coded(cell.driver, "any, or not known")
    state = cell.state if cell.state == "unknown" else f"**{cell.state}**"
    if cell.vendor == "cpu":
        device, driver = "CPU", "-"
    if cell.row:
        see = f"[{rows[cell.row].title}](../errors/wrong-{cell.row}.md) `{cell.row}`"
        if rows[cell.row].measured:
            see += f", measured on {rows[cell.row].measured}"
    elif cell.entry is None:
        see = f"`python3 noxfile.py -s evidence-{cell.target}`"
    else:
        evidence = cell.entry.evidence
        device = f"{escaped(evidence.device)} ({escaped(', '.join(cell.families))})"
        torch, driver = escaped(cell.torch), escaped(cell.driver) or "-"
        state += f", stale: {escaped(evidence.reason)}" if evidence.reason else ""
        file = f"evidence/{cell.target}/{evidence.file.name}"
        report = f"[signed report of {escaped(evidence.day)}](../{file})"
        see = f"{report}, `{cell.target}`, {signer(cell.entry)}"
    return f"| {device} | {cell.system} | {torch} | {driver} | {state} | {see} |\n"


def signer(entry: Entry) -> str:
    """Return the key of a report: its name where the project gave it one, and its fingerprint."""
    name = (
        ""
        if entry.evidence.key == entry.fingerprint
        else f"{escaped(entry.evidence.key)}, "
    )
    return f"{name}key `{entry.fingerprint}`"


def table(vendor: str, cells: list[Cell], rows: dict[str, KnownWrong]) -> str:
    """Return the part of one vendor."""
    own = [cell for cell in cells if cell.vendor == vendor]
    own.sort(key=lambda cell: STATES.index(cell.state))
    lines = [line_of(cell, rows) for cell in own]
    return TABLE.format(title=TITLES[vendor]) + "".join(lines)


def pages(project: Project = PROJECT) -> dict[str, str]:
    """Return the text of each committed page by its path in docs/."""
    rows = read_known_wrong(project.catalog)
    made = {f"errors/wrong-{name}.md": page(name, row) for name, row in rows.items()}
    return made | {INDEX: index(project, with_reports=False)}


def index(project: Project = PROJECT, *, with_reports: bool) -> str:
    """Return the matrix; SpecError for a signed report that is refused, where it has these."""
    rows = read_known_wrong(project.catalog)
    cells = matrix(project, read_matrix(project) if with_reports else ())
    tables = [table(vendor, cells, rows) for vendor in TITLES]
    return HEAD.format(reports=REPORTS[with_reports]) + "".join(tables)


if __name__ == "__main__":
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
