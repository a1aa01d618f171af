"""The layout of help: parted between words, with the defaults, and examples from a table."""

import argparse
import functools
import re
from pathlib import Path
from typing import Any

from provision.core.findings import toml_table
from provision.ui.layout import GLUE, wrapped


class Formatter(argparse.HelpFormatter):
    """Lays out the help of one verb, or of the whole command line."""

    def format_help(self) -> str:
        """Return the help, with what ``examples.toml`` has for the verb; a usage as it is."""
        text = super().format_help()
        if "\n\n" not in text:  # which every parser asks for
            return text
        table = toml_table(Path(__file__).with_name("examples.toml"))
        own = table.get(self._prog.split()[-1], {}).items()
        fill = functools.partial(self._fill_text, width=self._width, indent=" " * 6)
        return f"{text}\nexamples:\n" + "".join(
            f"  {typed}\n{fill(does)}\n" for typed, does in own
        )

    def _format_usage(self, *parts: Any) -> str:  # noqa: ANN401 - as argparse has them
        flat = " ".join(super()._format_usage(*parts).split())
        fits = rf"\[[^]]{{1,{self._width - 9}}}\]"  # one option, or several that exclude each other
        whole = re.sub(fits, lambda found: found[0].replace(" ", GLUE), flat)
        return "\n".join(wrapped(whole, self._width, 7)) + "\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width, 0)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            indent + line for line in self._split_lines(text, width - len(indent))
        )
