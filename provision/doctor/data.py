"""The tables of the doctor: TOML files beside this module."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def data(name: str) -> dict[str, Any]:
    """Return a table file: ``cases``, ``findings``, ``log_rules`` or ``packages``."""
    path = Path(__file__).with_name(f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
