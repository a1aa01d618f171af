"""Files of the suite: its tables, scratch folders, and files that are written whole."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def read_table(module: str, name: str) -> Any:
    """Return a JSON file that is beside a module, of which ``__file__`` is given."""
    return json.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed in the end.

    Windows removes no file that a process has open, which may have been ended a moment ago.
    """
    return tempfile.TemporaryDirectory(prefix="smoke-", ignore_cleanup_errors=True)


def write(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
