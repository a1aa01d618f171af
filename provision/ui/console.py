"""The terminal: text for people on stderr, results as JSON on stdout."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.core.errors import ProvisionError
from provision.core.text import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console as RichConsole
    from rich.table import Table

    from provision.artifacts.resumable_download import OnBytes
    from provision.core.findings import Finding

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}  # by level of a finding
SCHEMA = 1
_EVERY = 5.0  # seconds between two lines about one download


class Console:
    """Prints for a person; also listens to the progress of verbs.

    Colour and width follow the terminal; ``NO_COLOR`` is honoured by rich. Where lines need no
    style, rich is not loaded: importing it takes longer than most verbs.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        self._last_download_line = 0.0
        # FORCE_COLOR is the one way to get colours without a terminal.
        self._styled = sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR"))

    @functools.cached_property
    def _rich(self) -> RichConsole:
        from rich.console import Console as RichConsole  # noqa: PLC0415 - slow to import

        # Paths and [brackets] are plain text, never to be coloured, wrapped or taken as markup.
        return RichConsole(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print a line."""
        if self._styled:
            self._rich.print(text, style=style)
        else:
            sys.stderr.write(f"{text}\n")

    def table(self, table: Table) -> None:
        """Print a table, within the terminal's width."""
        self._rich.print(table, soft_wrap=False)

    def step(self, text: str) -> None:
        """Print what is being done now."""
        self.line(f"· {text}", "dim")

    def note(self, text: str) -> None:
        """Print something that should stay readable afterwards."""
        self.line(f"! {text}", "yellow")

    @contextlib.contextmanager
    def downloads(self) -> Iterator[OnBytes]:
        """Show bytes and rate of downloads; without a terminal, a line every few seconds."""
        if not self._rich.is_terminal:
            yield self._print_download
            return
        from rich import progress  # noqa: PLC0415 - most verbs download nothing

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
        )
        with progress.Progress(*columns, console=self._rich, transient=True) as bars:
            tasks: dict[str, progress.TaskID] = {}

            def on_bytes(filename: str, done: int, total: int | None) -> None:
                if filename not in tasks:
                    tasks[filename] = bars.add_task(filename, total=total)
                bars.update(tasks[filename], completed=done, visible=done != total)

            yield on_bytes

    def _print_download(self, filename: str, done: int, total: int | None) -> None:
        if done == total or time.monotonic() - self._last_download_line > _EVERY:
            self._last_download_line = time.monotonic()
            self.step(f"{filename}: {size(done)} of {size(total) if total else 'unknown'}")

    def error(self, error: ProvisionError) -> None:
        """Print an error: what failed, the evidence, the cause, the remedy."""
        self.line(f"error: {error.what}", "bold red")
        for name in ("evidence", "cause", "remedy"):
            if text := getattr(error, name):
                self._labelled(name, text)

    def finding(self, finding: Finding) -> None:
        """Print a finding in the same order."""
        self.line(f"{finding.level}: {finding.symptom} [{finding.code}]", _STYLES[finding.level])
        self._labelled("evidence", "\n".join(finding.evidence))
        self._labelled("cause", finding.cause)
        self._labelled("remedy", finding.remedy)

    def _labelled(self, label: str, text: str) -> None:
        first, *rest = text.splitlines() or [""]
        mark = f"  {label + ':':<10}"
        if self._styled:
            from rich.text import Text  # noqa: PLC0415 - slow to import

            self._rich.print(Text.assemble((mark, "bold"), first))
        else:
            self.line(mark + first)
        for more in rest:
            self.line(" " * 12 + more)


def print_json(verb: str, result: object) -> None:
    """Print a result on stdout: ``{"schema": 1, "verb": …, "result": …}``."""
    document = {"schema": SCHEMA, "verb": verb, "result": to_jsonable(result)}
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def to_jsonable(value: Any) -> Any:  # noqa: ANN401 - whatever a verb returns
    """Return a result in JSON's types: dataclasses, models and named tuples become objects."""
    if isinstance(value, ProvisionError):
        return {name: getattr(value, name) for name in ("what", "evidence", "cause", "remedy")}
    # By attribute: importing pydantic or dataclasses takes longer than a build with nothing to do.
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if fields := getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None):
        return {name: to_jsonable(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(item) for item in value]
    return str(value) if isinstance(value, Path) else value
