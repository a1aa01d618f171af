"""The tables of the doctor: TOML files beside this module."""

from pathlib import Path
from typing import Any

from provision.core.findings import toml_table


def data(name: str) -> dict[str, Any]:
    """Return a table file: ``cases``, ``findings``, ``log_rules`` or ``packages``."""
    return toml_table(Path(__file__).parent / f"{name}.toml")
