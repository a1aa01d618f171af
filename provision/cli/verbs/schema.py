"""print the JSON Schema of a spec."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from provision.core.errors import Exit

if TYPE_CHECKING:
    import argparse

    from provision.core.project import Project
    from provision.ui.console import Console

ANYWHERE = True


def add_arguments(_: argparse.ArgumentParser) -> None:
    """Add nothing."""


def handle(_: argparse.Namespace, __: Project, ___: Console) -> int:
    """Print the schema."""
    from provision.spec.model import spec_schema
    from provision.ui.console import print_text

    print_text(json.dumps(spec_schema(), indent=2) + "\n")
    return Exit.OK
