"""``environment.yml`` of conda: its ``pip`` part, each entry with its line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provision.core.limits import read_parsed
from provision.spec.pyproject import Line

PIP, CONDA = ("pip", ""), ("conda", "")


def conda_lines(path: Path) -> Iterator[Line]:
    """Yield the entries for pip and conda; OSError or ValueError if the file cannot be read."""
    import yaml  # noqa: PLC0415 - it takes longer to load than all specs of a project

    try:
        document = read_parsed(path, lambda text: yaml.compose(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    for entry in _below(document, "dependencies"):
        if isinstance(entry, yaml.MappingNode):
            for text in _below(entry, "pip"):
                yield Line(text.start_mark.line + 1, str(text.value), PIP)
        else:
            yield Line(entry.start_mark.line + 1, str(entry.value), CONDA)


def _below(node: Any, key: str) -> list[Any]:  # noqa: ANN401 - PyYAML has no types
    """Return the entries of a list in a mapping, none where there is no such list."""
    for name, value in getattr(node, "value", ()) if node else ():
        if name.value == key and isinstance(value.value, list):
            return value.value
    return []
