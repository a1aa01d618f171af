"""YAML that others wrote: its shape is checked before PyYAML builds it."""

from typing import Any

import yaml

from provision.core.limits import NESTED

# The first is ten times as fast, where libyaml is.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def compose_yaml(text: str) -> Any:  # noqa: ANN401 - PyYAML has no types
    """Return the nodes of a text, with their lines; ValueError if it is no YAML, or nested deeply."""
    try:
        _check_shape(text, references=True)
        return yaml.compose(text, _LOADER)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def load_yaml(text: str) -> Any:  # noqa: ANN401 - not validated
    """Return what a text holds; ValueError if it is no YAML, nested deeply, or has references."""
    try:
        _check_shape(text, references=False)
        return yaml.load(text, _LOADER)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _check_shape(text: str, *, references: bool) -> None:
    # PyYAML crashes the interpreter on deep nesting, and a few bytes of references to references
    # stand for any amount of memory.
    depth = 0
    for event in yaml.parse(text, _LOADER):
        name = type(event).__name__
        if name.endswith("StartEvent"):
            depth += 1
        elif name.endswith("EndEvent"):
            depth -= 1
        if depth > NESTED or (name == "AliasEvent" and not references):
            raise ValueError("it is nested too deeply, or has references (*name)")
