"""The layout of help: parted between words only, and examples from a table."""

import argparse
import textwrap
from pathlib import Path
from typing import Any

from provision.core.findings import toml_table


class Formatter(argparse.HelpFormatter):
    """Lays out the help of one verb, or of the whole command line."""

    def format_help(self) -> str:
        """The help, with what ``examples.toml`` has for the verb; a usage as it is."""
        text = super().format_help()
        if "\n\n" not in text:  # which every parser asks for
            return text
        table = toml_table(Path(__file__).with_name("examples.toml"))
        text += "\nexamples:\n"
        for command, effect in table[self._prog.split()[-1]].items():
            text += f"  {command}\n{self._fill_text(effect, self._width, ' ' * 6)}\n"
        return text

    def _format_usage(self, *parts: Any) -> str:  # noqa: ANN401 - as argparse has them
        usage = " ".join(super()._format_usage(*parts).split())
        lines = self._split_lines(usage, self._width - 7)
        return ("\n" + " " * 7).join(lines) + "\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(
            text, width, break_long_words=False, break_on_hyphens=False
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = self._split_lines(text, width - len(indent))
        return textwrap.indent("\n".join(lines), indent)
