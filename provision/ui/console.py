"""The terminal: results and findings on stdout; what is being done, notes and errors on stderr."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import get_ident
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from pydantic import BaseModel
from rich.console import Console as RichConsole
from rich.text import Text

from provision.core.errors import ProvisionError, ToolError
from provision.core.findings import Finding
from provision.core.interruption import is_interrupted
from provision.core.privacy import redact
from provision.core.program import program_name
from provision.core.text import harmless, json_text
from provision.ui.table import Table

if TYPE_CHECKING:
    from provision.core.progress import Look
    from provision.ui.live import Steps
    from provision.ui.progress_lines import ProgressLines

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_NARROW = 20  # characters; a text in less is hard to read
SCHEMA = 2  # of documents


class Console:
    """Prints for a person: results on stdout, the rest on stderr; listens to the progress of verbs.

    ``aside`` prints results on stderr too, where stdout holds a document or a program's output;
    ``detailed`` prints each line that is summed up otherwise.
    """

    def __init__(
        self,
        program: str,
        *,
        quiet: bool = False,
        aside: bool = False,
        detailed: bool = False,
    ) -> None:
        self.program = program
        self.quiet = quiet
        self.detailed = detailed
        self.err = _screen("stderr")
        self.out = self.err if aside else _screen("stdout")
        # Whether progress is drawn again and again; not where commands are printed in between.
        self.alive = not detailed and os.environ.get("TERM") != "dumb"
        if columns_of(self.err) is None:
            self.alive = False
        self.told = set[str]()  # checks that the terminal of the results has shown
        self._steps: Steps | None = None
        self._lines: dict[int, ProgressLines] = {}  # of the step of each thread

    def line(self, text: str = "", style: str = "", hang: int = 4) -> None:
        """Print a line of the result, or several: newlines are kept."""
        show(self.out, text, style, hang)

    def verdict(self, text: str, *, good: bool) -> None:
        """Print a line of the result that says good or bad."""
        self.line(text, "bold green" if good else "bold red")

    def command(self, text: str) -> None:
        """Print what is to be copied: it is never parted."""
        show(self.out, f"  {text}", hang=0)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *styles: str,
        spare: Sequence[str] = (),
    ) -> None:
        """Print a table; ``styles`` are those of its rows.

        A narrow terminal gets it without ``spare`` columns, in their order, as far as need be;
        where its last column still were too narrow, each row is lines of ``name: value``.
        """
        cells = [tuple(map(_in_one_line, row)) for row in rows]
        table = Table(tuple(columns), tuple(cells))
        if width := columns_of(self.out):
            table = table.narrowed(width, spare)
        if width and not table.has_room(width):
            self._records(table)
        else:
            styles = styles or ("",) * len(rows)
            for line, style in zip(table.lines(), ("bold", *styles), strict=True):
                self.line(line, style, table.last)
        if left_out := [name for name in spare if name not in table.columns]:
            self.line(f"a wider terminal shows also: {', '.join(left_out)}", "dim")

    def _records(self, table: Table) -> None:
        """Print each row as lines of ``name: value``."""
        for row in table.rows:
            for name, cell in zip(table.columns, row, strict=True):
                self.line(f"{name.strip()}: {cell.strip()}")
            self.line()

    def remark(self, text: str) -> None:
        """Print a part of the result that nobody should miss."""
        self.line(f"! {_indented(text)}", "yellow")

    def finding(self, finding: Finding) -> None:
        """Print a finding: the symptom, the evidence, the cause, the remedy."""
        head = f"{finding.level}: {_indented(finding.symptom)} [{finding.code}]"
        self.line(head, _STYLES[finding.level])
        _show_parts(self.out, finding, "\n".join(finding.evidence))

    def step(self, text: str, look: Look = dict) -> None:
        """Show what this thread does now; an empty text: nothing more."""
        if self.quiet or is_interrupted():
            return
        if not self.alive:
            self._close_lines(get_ident())
            if text:
                show(self.err, f"· {_indented(text)}", "dim")
            if look():
                from provision.ui.progress_lines import ProgressLines  # noqa: PLC0415 - as below

                lines = ProgressLines(_indented(text), look, self.err)
                self._lines[get_ident()] = lines
                lines.start()
            return
        from provision.ui.live import Steps  # noqa: PLC0415 - it imports this module

        self._steps = self._steps or Steps(self)
        self._steps.begin(_indented(text), look)

    def close(self) -> None:
        """End every step: what is printed now is no progress."""
        for thread in tuple(self._lines):
            self._close_lines(thread)
        if self._steps:
            self._steps.close()

    def _close_lines(self, thread: int) -> None:
        if lines := self._lines.pop(thread, None):
            lines.close()

    def note(self, text: str) -> None:
        """Print something that should stay readable afterwards."""
        show(self.err, f"! {_indented(text)}", "yellow")

    def error(self, error: ProvisionError) -> None:
        """Print an error: what failed, the evidence, the cause, the remedy."""
        show(self.err, f"error: {_indented(error.what)}", _STYLES["error"])
        _show_parts(self.err, error, error.evidence)


class _Stream:
    """Stdout or stderr, by its name: tests and bars replace the stream."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:  # noqa: ANN401 - any of a stream
        if attribute == "rich_proxied_file":  # by which rich would write into its bars
            raise AttributeError(attribute)
        return getattr(getattr(sys, self._name), attribute)

    def write(self, text: str) -> None:
        """Write a text, escaping what the stream's encoding lacks."""
        stream = getattr(sys, self._name)
        encoding = stream.encoding or "utf-8"
        _write(stream, text.encode(encoding, "backslashreplace").decode(encoding))


def _screen(name: str) -> RichConsole:
    """Stdout or stderr with the colours that it takes."""
    stream = cast("IO[str]", _Stream(name))
    if os.environ.get("NO_COLOR"):  # rich would leave bold and dim
        return RichConsole(file=stream, color_system=None)
    return RichConsole(file=stream)


def columns_of(screen: RichConsole) -> int | None:
    """The columns of a terminal, now; None where it is none."""
    try:
        return os.get_terminal_size(screen.file.fileno()).columns or 80
    except OSError:
        return None


def show(screen: RichConsole, text: str, style: str = "", hang: int = 4) -> None:
    """Print a text; a terminal's lines are parted between words, those without ``hang`` are not.

    All that a verb shows to people passes through here, so here it is made harmless.
    """
    for line in harmless(text).split("\n"):
        parts = [line.rstrip()]
        if hang and (width := columns_of(screen)):
            parts = _parted(line, width, hang)
        for part in parts:
            screen.print(Text(part, style), soft_wrap=True)


def _parted(line: str, width: int, hang: int) -> list[str]:
    """A line as several; no command in backticks is parted, and no long word, such as a path."""
    if hang > max(width // 2, width - _NARROW):
        hang = 4
    short = rf"`[^`]{{1,{max(width - hang - 4, 1)}}}`"
    glued = re.sub(short, lambda command: command[0].replace(" ", "\0"), line)
    parts = textwrap.wrap(
        glued,
        width,
        subsequent_indent=" " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace("\0", " ") for part in parts] or [""]


def _show_parts(
    screen: RichConsole, fault: Finding | ProvisionError, evidence: str
) -> None:
    """Print evidence, cause and remedy of an error below each other, each after its name."""
    # Tables name commands as they are where PATH leads to this program.
    remedy = fault.remedy.replace("`provision ", f"`{program_name()} ")
    parts = {"evidence": evidence, "cause": fault.cause, "remedy": remedy}
    for name, text in parts.items():
        if text:
            below = textwrap.indent(text.rstrip(), " " * 12).lstrip()
            show(screen, f"  {name + ':':<10}{below}", hang=12)


def _in_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _indented(text: str) -> str:
    """A text whose further lines cannot be taken for lines of this program."""
    return text.replace("\n", "\n    ")


def show_log() -> None:
    """Print every command that runs, and what libraries log."""

    class Harmless(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Harmless())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def print_json(verb: str | None, result: object, *, ok: bool) -> None:
    """Print a document on stdout; ``ok`` where the exit code is 0."""
    document = {"schema": SCHEMA, "verb": verb, "ok": ok, "result": to_jsonable(result)}
    print_text(json_text(document, indent=2))


def print_text(text: str) -> None:
    """Print a result on stdout as it is."""
    _write(sys.stdout, text)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # the rest goes there
        # A reader that has gone, as that of `| head`, changes no result; nor does a lost message.
        # Windows calls that an invalid argument.
        if stream is sys.stdout and error.errno not in {errno.EPIPE, errno.EINVAL}:
            raise ToolError("cannot print the result", evidence=str(error)) from error


def open_streams() -> None:
    """Open the null device for each standard stream that the caller closed."""
    # In the order of their numbers, or the next file that is opened would get one of these.
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115


def to_jsonable(value: Any) -> Any:  # noqa: ANN401 - whatever a verb returns
    """A result in JSON's types: dataclasses and models become objects."""
    if isinstance(value, ProvisionError):
        names = ("what", "evidence", "cause", "remedy")
        return {name: getattr(value, name) for name in names}
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if is_dataclass(value):
        return {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(item) for item in value]
    if isinstance(value, Path | str):
        return redact(str(value))
    return value
