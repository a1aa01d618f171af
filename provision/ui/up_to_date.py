"""Show a build that had nothing to do; imports nothing that takes time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.up_to_date import UpToDate
    from provision.ui.console import Console


def show_up_to_date(result: UpToDate, console: Console) -> None:
    """Print the verdict and what to do next."""
    folder, record = result.generation["folder"], result.generation["record"]
    console.line(
        up_to_date_line(result.target, record["proof"], record["built"]), "green"
    )
    show_next_steps(result.target, folder, console)


def up_to_date_line(target: str, proof: str, built: str) -> str:
    """Return the verdict on a target that is as locked already."""
    return f"{target} is up to date ({proof}, built {built})"


def show_next_steps(target: str, folder: Path, console: Console) -> None:
    """Print the commands that use an environment, the current generation of a target."""
    console.line("Next:")
    console.command(f"{console.program} run {target} -- python your_script.py")
    console.command(f"{console.program} smoke {target} --full")
    if activation := _activation(folder):
        console.command(f"or activate it: {activation}")


def _activation(folder: Path) -> str:
    """Return the line that activates an environment; a conda prefix has no script for it."""
    current = folder.parent / "current"
    if (folder / "conda-meta").is_dir():
        return ""
    if sys.platform == "win32":
        # FAT, exFAT and network drives know no links, so `current` may be absent there.
        path = str((current if current.exists() else folder) / "Scripts" / "activate")
        return f'& "{path}"' if " " in path else path  # as PowerShell takes it
    import shlex  # noqa: PLC0415 - only where it is shown

    return f"source {shlex.quote(str(current / 'bin' / 'activate'))}"
