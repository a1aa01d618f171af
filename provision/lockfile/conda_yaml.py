"""The YAML of a conda layer, which others may have written."""

from collections.abc import Iterable
from typing import Any

import yaml

_DEEPEST = 20  # conda-lock writes 6 levels, the stream and the document included
# The first is ten times as fast, where libyaml is.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str) -> Any:  # noqa: ANN401 - not validated
    """Return what a text holds; ValueError if it is no YAML, or has what conda-lock never writes."""
    try:
        _check_shape(type(event).__name__ for event in yaml.parse(text, _LOADER))
        return yaml.load(text, _LOADER)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _check_shape(events: Iterable[str]) -> None:
    """Refuse what conda-lock never writes, before PyYAML builds it."""
    # PyYAML crashes the interpreter on deep nesting, and a few bytes of references to references
    # stand for any amount of memory.
    depth = 0
    for event in events:
        depth += event.endswith("StartEvent") - event.endswith("EndEvent")
        if depth > _DEEPEST or event == "AliasEvent":
            raise ValueError("it is nested too deeply, or has references (*name)")
