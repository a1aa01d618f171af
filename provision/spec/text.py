"""The text of a spec that stands alone, for a bundle or an image."""

from pathlib import Path

import tomlkit

from provision.core.limits import read_text
from provision.spec.extends import resolved, spec_chain


def resolved_text(path: Path) -> str:
    """Return the text of a spec that says the same as a file, without ``extends``."""
    chain = spec_chain(path)
    return read_text(path) if len(chain) == 1 else tomlkit.dumps(resolved(chain))
