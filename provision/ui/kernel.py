"""Show an installed Jupyter kernel, and the settings of VS Code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.commands.kernel import Kernel
    from provision.ui.console import Console


def show_kernel(result: Kernel, console: Console) -> None:
    """Print where the kernel lies, and what names the interpreter to an IDE."""
    console.line(f"Jupyter starts it from {result.kernel}", "green")
    console.line("VS Code, in .vscode/settings.json:")
    console.line(f'  "python.defaultInterpreterPath": {json.dumps(str(result.python))}')
