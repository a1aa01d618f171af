"""Which variables that ``run`` drops were named before: each is named once for a target."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.limits import read_if_any

_NAMED = ".not-passed-on"  # a file in the folder of a target's environments, a name in a line


def not_yet_named(environments: Path, dropped: Sequence[str]) -> list[str]:
    """Return the variables that were never named, and keep that they are now."""
    path = environments / _NAMED
    content = read_if_any(path) or b""
    named = content.decode(errors="replace").split()
    new = [name for name in dropped if name not in named]
    if new:
        names = sorted({*named, *new})
        # Where nothing can be kept, as in an installation that is shared, each call names them.
        with contextlib.suppress(ToolError):
            write_atomic(path, "\n".join([*names, ""]))
    return new
