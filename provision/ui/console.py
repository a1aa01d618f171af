"""The terminal: results on stdout; what is being done, notes and errors on stderr."""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from provision.core.errors import ProvisionError, ToolError
from provision.core.findings import Finding
from provision.core.privacy import redact
from provision.core.text import harmless, json_text
from provision.ui import layout

if TYPE_CHECKING:
    from provision.core.progress import Look
    from provision.ui.live import Steps

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
SCHEMA = 1


class Console:
    """Prints for a person: results on stdout, the rest on stderr; listens to the progress of verbs.

    ``aside`` prints results on stderr too, where stdout holds a document or a program's output.
    """

    def __init__(
        self, program: str, *, quiet: bool = False, aside: bool = False
    ) -> None:
        self.program, self.quiet = program, quiet
        self.err = Screen("stderr")
        self.out = self.err if aside else Screen("stdout")
        self.alive = (
            bool(self.err.width) and os.environ.get("TERM") != "dumb"
        )  # drawn again
        self.told = set[
            str
        ]()  # checks that the terminal of the results has shown already
        self._steps: Steps | None = None

    def line(self, text: str = "", style: str = "", hang: int = 4) -> None:
        """Print a line of the result, or several: newlines are kept."""
        self.out.print(text, style, hang)

    def command(self, text: str) -> None:
        """Print what is to be copied: it is never parted."""
        self.out.print(f"  {text}", hang=0)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *styles: str
    ) -> None:
        """Print a table; ``styles`` are those of its rows."""
        start, lines = layout.table(columns, rows, self.out.width)
        for line, style in zip(
            lines, ["bold", *(styles or [""] * len(rows))], strict=True
        ):
            if line:  # records have no head
                self.line(line, style, start)

    def remark(self, text: str) -> None:
        """Print a part of the result that nobody should miss."""
        self.line(f"! {_indented(text)}", "yellow")

    def finding(self, finding: Finding) -> None:
        """Print a finding: the symptom, the evidence, the cause, the remedy."""
        style = {"error": "bold red", "warning": "yellow", "note": "cyan"}[
            finding.level
        ]
        head = f"{finding.level}: {_indented(finding.symptom)} [{finding.code}]"
        self.out.parts(head, style, finding, "\n".join(finding.evidence))

    def step(self, text: str, look: Look = dict) -> None:
        """Show what this thread does now; an empty text: nothing more."""
        if not self.quiet:
            from provision.ui.live import Steps  # noqa: PLC0415 - most verbs end at once

            self._steps = self._steps or Steps(self)
            self._steps.begin(_indented(text), look)

    def close(self) -> None:
        """End every step: what is printed now is no progress."""
        if self._steps:
            self._steps.close()

    def note(self, text: str) -> None:
        """Print something that should stay readable afterwards."""
        self.err.print(f"! {_indented(text)}", "yellow")

    def error(self, error: ProvisionError) -> None:
        """Print an error: what failed, the evidence, the cause, the remedy."""
        self.err.parts(
            f"error: {_indented(error.what)}", "bold red", error, error.evidence
        )


class Screen:
    """Stdout or stderr, by its name: tests and bars replace the stream.

    All that a verb shows to people passes through here, so here it is made harmless. Importing
    rich, which draws bars, would take longer than most verbs.
    """

    def __init__(self, name: str) -> None:
        self._stream = functools.partial(getattr, sys, name)
        self.styled = _styled(self._stream())

    @property
    def width(self) -> int | None:
        """The columns of the terminal, now; None where it is none."""
        try:
            return os.get_terminal_size(self._stream().fileno()).columns or 80
        except OSError:
            return None

    def print(self, text: str, style: str = "", hang: int = 4, bold: int = 0) -> None:
        """Print a text, ``bold`` characters bold; lines without ``hang`` are not parted."""
        for line in harmless(text).split("\n"):
            for part in layout.wrapped(
                line.rstrip(), self.width if hang else None, hang
            ):
                self._write(
                    self._in("bold", part[:bold]) + self._in(style, part[bold:])
                )

    def parts(
        self, head: str, style: str, of: Finding | ProvisionError, evidence: str
    ) -> None:
        """Print a fault: its evidence, cause and remedy below each other, each after its name."""
        self.print(head, style)
        for name, text in (
            ("evidence", evidence),
            ("cause", of.cause),
            ("remedy", of.remedy),
        ):
            if text:
                below = text.rstrip().replace("\n", "\n" + " " * 12)
                self.print(f"  {name + ':':<10}{below}", hang=12, bold=12)

    def _in(self, style: str, text: str) -> str:
        codes = ";".join(str(_CODES[word]) for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and text and self.styled else text

    def _write(self, line: str) -> None:
        encoding = self._stream().encoding or "utf-8"
        _write(
            self._stream(),
            line.encode(encoding, "backslashreplace").decode(encoding) + "\n",
        )


def _styled(stream: TextIO) -> bool:
    """Whether a stream takes escape sequences; https://no-color.org, https://force-color.org."""
    if os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR"):
        return not os.environ.get("NO_COLOR")
    plain = not stream.isatty() or os.environ.get("TERM") == "dumb"
    if plain or sys.platform != "win32":
        return not plain
    import ctypes  # noqa: PLC0415 - Windows only, where a console has to be switched to them
    import msvcrt  # noqa: PLC0415 - as above

    handle, mode = msvcrt.get_osfhandle(stream.fileno()), ctypes.c_ulong()
    api = ctypes.windll.kernel32
    known = api.GetConsoleMode(handle, ctypes.byref(mode))
    return bool(known and api.SetConsoleMode(handle, mode.value | 4))


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
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), stream.fileno()
        )  # the rest has nowhere to go
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
    """Return a result in JSON's types: dataclasses and models become objects."""
    if isinstance(value, ProvisionError):
        return {
            name: getattr(value, name)
            for name in ("what", "evidence", "cause", "remedy")
        }
    # By attribute: importing pydantic or dataclasses takes longer than a build with nothing to do.
    if hasattr(value, "model_dump"):
        return to_jsonable(value.model_dump(mode="json"))
    if fields := getattr(value, "__dataclass_fields__", None):
        return {name: to_jsonable(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(item) for item in value]
    return redact(str(value)) if isinstance(value, Path | str) else value
