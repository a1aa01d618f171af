"""The names of all packages that the locks of a project have, read in the time of a press of TAB."""

import re
from collections.abc import Iterable
from pathlib import Path

from provision.core.limits import read_if_any
from provision.lockfile.pip import CONDA_LAYER, PIP_LAYER

_NAMES = {
    PIP_LAYER: re.compile(rb"^([a-z0-9-]+)==", re.MULTILINE),
    CONDA_LAYER: re.compile(rb"^- name: ([\w.-]+)$", re.MULTILINE),
}


def locked_names(folders: Iterable[Path]) -> list[str]:
    """Return the names of packages of both layers, sorted, of the locks in some folders.

    No lock is validated.
    """
    names = set()
    for folder in folders:
        for file, pattern in _NAMES.items():
            for name in pattern.findall(read_if_any(folder / file) or b""):
                names.add(name.decode("ascii", "ignore"))
    return sorted(names)
