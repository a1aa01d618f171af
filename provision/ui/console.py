"""The terminal: text for people on stderr, results as JSON on stdout."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from provision.core.credentials import redact
from provision.core.errors import ProvisionError, ToolError
from provision.core.findings import Finding
from provision.core.text import harmless, json_text

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from provision.ui.live import Steps


_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}  # by level of a finding
SCHEMA = 1


class Console:
    """Prints for a person; also listens to the progress of verbs.

    Colour and width follow the terminal; ``NO_COLOR`` is honoured by rich. Where lines need no
    style, rich is not loaded: importing it takes longer than most verbs.

    All that a verb shows to people passes through here, so here it is made harmless.
    """

    def __init__(self, program: str) -> None:
        self.program = program
        # FORCE_COLOR is the one way to get colours without a terminal.
        self._styled = sys.stderr.isatty() or bool(os.environ.get("FORCE_COLOR"))
        self.alive = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"  # can be drawn again
        self.muted = False  # shows no progress
        self.told = set[str]()  # checks that the terminal of the results has shown already

    @functools.cached_property
    def _steps(self) -> Steps:
        from provision.ui.live import Steps  # noqa: PLC0415 - most verbs end at once

        return Steps(self)

    @functools.cached_property
    def rich(self) -> RichConsole:
        """The terminal as rich sees it."""
        from rich.console import Console as RichConsole  # noqa: PLC0415 - slow to import

        # Paths and [brackets] are plain text, never to be coloured, wrapped or taken as markup.
        return RichConsole(stderr=True, highlight=False, markup=False, soft_wrap=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print a line, or several: newlines are kept."""
        text = harmless(text)
        if self._styled:
            self.rich.print(text, style=style)
        else:
            _write(sys.stderr, f"{text}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table within the terminal's width; the last column is wrapped."""
        from rich.table import Table  # noqa: PLC0415 - slow to import

        table = Table(box=None, pad_edge=False)
        for column in columns:
            table.add_column(column, no_wrap=column != columns[-1])
        for row in rows:
            table.add_row(*map(harmless, row))
        self.rich.print(table, soft_wrap=False)

    def step(self, text: str) -> None:
        """Show what this thread does now; an empty text: nothing more."""
        if not self.muted:
            self._steps.begin(_indented(text))

    def show(self, *, ended: Iterable[dict[str, Any]] = (), **how: Any) -> None:  # noqa: ANN401 - as rich
        """Show how far the step of this thread is, and a line for each check that has ended."""
        if self.muted:
            return
        for result in ended if self.alive else ():
            from provision.ui.smoke import check_line  # noqa: PLC0415 - loads pydantic

            self.line(*check_line(result, self.rich.width))
            self.told |= {result["id"]} if sys.stdout.isatty() else set()
        self._steps.show(**how)

    def close(self) -> None:
        """End every step: what is printed now is no progress."""
        if "_steps" in vars(self):
            self._steps.close()

    def note(self, text: str) -> None:
        """Print something that should stay readable afterwards."""
        self.line(f"! {_indented(text)}", "yellow")

    def error(self, error: ProvisionError) -> None:
        """Print an error: what failed, the evidence, the cause, the remedy."""
        self.line(f"error: {_indented(error.what)}", "bold red")
        for name in ("evidence", "cause", "remedy"):
            if text := getattr(error, name):
                self._labelled(name, text)

    def finding(self, finding: Finding) -> None:
        """Print a finding in the same order."""
        head = f"{finding.level}: {_indented(finding.symptom)} [{finding.code}]"
        self.line(head, _STYLES[finding.level])
        self._labelled("evidence", "\n".join(finding.evidence))
        self._labelled("cause", finding.cause)
        self._labelled("remedy", finding.remedy)

    def _labelled(self, label: str, text: str) -> None:
        first, *rest = harmless(text).splitlines() or [""]
        mark = f"  {label + ':':<10}"
        if self._styled:
            from rich.text import Text  # noqa: PLC0415 - slow to import

            self.rich.print(Text.assemble((mark, "bold"), first))
        else:
            self.line(mark + first)
        for more in rest:
            self.line(" " * 12 + more)


def _indented(text: str) -> str:
    """Return a text whose further lines cannot be taken for lines of this program."""
    return text.replace("\n", "\n    ")


def show_log() -> None:
    """Print every command that runs, and what libraries log."""
    import logging  # noqa: PLC0415 - slow to import, and rarely wanted

    class Harmless(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Harmless())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def print_json(verb: str, result: object) -> None:
    """Print a result on stdout: ``{"schema": 1, "verb": …, "result": …}``."""
    document = {"schema": SCHEMA, "verb": verb, "result": to_jsonable(result)}
    print_text(json_text(document, indent=2))


def print_text(text: str) -> None:
    """Print a result on stdout as it is."""
    _write(sys.stdout, text)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # the rest has nowhere to go
        # A reader that has gone, as that of `| head`, changes no result; nor does a lost message.
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise ToolError("cannot print the result", evidence=str(error)) from error


def open_streams() -> None:
    """Open the null device for each standard stream that the caller closed.

    In the order of their numbers, or the next file that is opened would get one of these.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115


def to_jsonable(value: Any) -> Any:  # noqa: ANN401 - whatever a verb returns
    """Return a result in JSON's types: dataclasses, models and named tuples become objects."""
    if isinstance(value, ProvisionError):
        return {name: getattr(value, name) for name in ("what", "evidence", "cause", "remedy")}
    # By attribute: importing pydantic or dataclasses takes longer than a build with nothing to do.
    if hasattr(value, "model_dump"):
        return to_jsonable(value.model_dump(mode="json"))
    if fields := getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None):
        return {name: to_jsonable(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(item) for item in value]
    return redact(str(value)) if isinstance(value, Path | str) else value
