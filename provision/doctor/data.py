"""The tables of the doctor: TOML files beside this module."""

import re
from pathlib import Path
from typing import Any

from provision.core.findings import toml_table


def data(name: str) -> dict[str, Any]:
    """Return a table file by its name, such as ``cases`` or ``log_rules/ipex``."""
    return toml_table(Path(__file__).parent / f"{name}.toml")


def is_library_of(kind: str, library: str) -> bool:
    """Whether a library is of a kind: ``oneapi``, ``cuda``, ``driver``, ``glibc``, ``windows``."""
    patterns = data("packages")["library"][kind]
    return bool(re.fullmatch("|".join(patterns), library, re.IGNORECASE))
