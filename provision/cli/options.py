"""The options of all verbs, from ``options.json``, which has the keywords of argparse.

``type`` names one of the types below. Options of the same ``one`` exclude each other. ``*NAME``
stands for what several verbs share, under a ``title`` of its own; ``VERB`` for every verb.
"""

import json
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LONGEST = 30 * 86400  # seconds


def seconds(text: str) -> float:
    """Return a time such as ``90s``, as the type of an option."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    if (
        unit is None
        or not text[:-1].isdecimal()
        or not 1 <= int(text[:-1]) * unit <= _LONGEST
    ):
        raise ArgumentTypeError(
            f"{text!r} is no time from 1s to 30d, such as 90s, 10m or 2h"
        )
    return float(int(text[:-1]) * unit)


_TYPES = {"path": Path, "int": int, "seconds": seconds}
_TABLE: dict[str, Any] = json.loads(
    Path(__file__).with_suffix(".json").read_text("utf-8")
)


def add_options(parser: Any, name: str, verbs: Sequence[str]) -> None:  # noqa: ANN401 - or a group
    """Add the options of a verb, or what several share, to a parser."""
    groups: dict[str, Any] = {}
    for words, said in _TABLE.get(name, {}).items():
        if words == "title":
            parser = parser.add_argument_group(said)
        elif words.startswith("*"):
            add_options(parser, words, verbs)
        else:
            keywords = dict(said)
            if kind := keywords.pop("type", ""):
                keywords["type"] = _TYPES[kind]
            if "VERB" in keywords.get("choices", ()):
                keywords["choices"] = [*keywords["choices"][:-1], *verbs]
            if (one := keywords.pop("one", "")) and one not in groups:
                groups[one] = parser.add_mutually_exclusive_group()
            groups.get(one, parser).add_argument(*words.split(), **keywords)
