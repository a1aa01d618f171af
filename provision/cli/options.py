"""Arguments that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_wheelhouse(parser: argparse.ArgumentParser) -> None:
    """Add ``--wheelhouse``."""
    parser.add_argument(
        "--wheelhouse", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of wheels to use first; may be given again",
    )  # fmt: skip


def add_build_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``build`` and ``verify --repair`` take."""
    add_wheelhouse(parser)
    parser.add_argument("--offline", action="store_true", help="ask no index")
    parser.add_argument("--no-smoke", action="store_true", help="leave out the quick checks")
