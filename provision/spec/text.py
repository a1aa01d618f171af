"""The text of a spec that needs no other file, for a bundle or an image."""

from pathlib import Path

import tomlkit

from provision.core.limits import read_text
from provision.spec.extends import resolved, spec_chain
from provision.spec.reader import load_spec


def resolved_text(path: Path) -> str:
    """Return the text of a spec that says the same as a file, without what that refers to.

    What it extends and what its files require is in it, so a bundle or an image needs no other.
    """
    chain, pip = spec_chain(path), load_spec(path).pip
    if len(chain) == 1 and not (pip.files or pip.local or pip.exclude):
        return read_text(path)
    document = resolved(chain)
    for key in ("files", "drop"):
        document["pip"].pop(key, None)
    for key in ("requirements", "constraints", "local"):
        document["pip"][key] = list(getattr(pip, key))
    return tomlkit.dumps(document)
