"""``environment.yml`` of conda: its ``pip`` part, each entry with its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provision.core.limits import read_parsed
from provision.spec.model import LONGEST
from provision.spec.pyproject import Line

CONDA = ("conda", "")  # the part of what conda installs


def conda_lines(path: Path) -> Iterator[Line]:
    """Yield the entries for pip and conda; OSError or ValueError if the file cannot be read."""
    # It takes longer to load than all specs of a project.
    from provision.core.yaml import compose_yaml  # noqa: PLC0415

    for entry in _below(read_parsed(path, compose_yaml), "dependencies"):
        if isinstance(entry.value, str):
            number = entry.start_mark.line + 1
            if len(entry.value) > LONGEST:
                raise ValueError(f"line {number}: it is too long for a package")
            yield Line(number, entry.value, CONDA)
        for text in _below(entry, "pip"):
            if not isinstance(text.value, str):
                raise TypeError(f"line {text.start_mark.line + 1}: it is no text")
            yield Line(text.start_mark.line + 1, text.value)


def _below(node: Any, key: str) -> list[Any]:  # noqa: ANN401 - PyYAML has no types
    """Return the entries of a list in a mapping, none where there is no such list."""
    if getattr(node, "id", "") != "mapping":
        return []
    for name, value in node.value:
        if name.value == key and value.id == "sequence":
            return list(value.value)
    return []
