"""What is private, and how it is kept from being shown: the one list of it.

All output passes through :func:`redact`, which every verb loads: this module imports little. A text
for somebody else passes through :func:`anonymize`, too. To programs, credentials go by environment
variable: any user can read a command.
"""

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from provision.core.findings import toml_table
from provision.core.home import home_folder

_SHORT = 4  # letters: names of users that long are words of devices, such as "max"


@cache
def _table() -> dict[str, Any]:
    return toml_table(Path(__file__).with_suffix(".toml"))


@cache
def _patterns(section: str, key: str) -> list[tuple[re.Pattern[str], str]]:
    """Return patterns of the list and what is written instead of what they match.

    Each list is compiled when it is first used: those for a text for others take 20 ms, and no
    other output needs them.
    """
    rows = _table()[section][key]
    return [(re.compile(_whole(pattern)), mark) for pattern, mark in rows]


def _whole(pattern: str) -> str:
    """Return a pattern with the parts that it names in their place."""
    parts: dict[str, str] = _table()["part"]
    for name in reversed(parts):  # one may have those before it in it
        pattern = pattern.replace(f"<{name}>", parts[name])
    return pattern


def redact(text: str) -> str:
    """Return a text with the credentials of every URL and HTTP header replaced by ``***``."""
    for pattern, mark in _patterns("output", "patterns"):
        text = pattern.sub(mark, text)
    return text


def holds_secret(url: str) -> bool:
    """Whether a URL holds a password or token itself, not the name of a ``$VARIABLE``."""
    parts = urlsplit(url)
    shown = (parts.password or "$").startswith("$")
    rest = parts._replace(netloc="host").geturl()
    return not shown or redact(rest) != rest


def is_telling(name: str) -> bool:
    """Whether a name of a user or machine is one that few have, and no part of a device's name."""
    return len(name) > _SHORT and not re.fullmatch(_table()["part"]["common"], name)


def anonymize(text: str, prefix: Path | None, user: str) -> str:
    """Return a text without homes, names of users and hosts, serial numbers and tokens.

    ``prefix`` is the environment that the text is about, ``user`` the one of this process.
    """
    for path, mark in ((prefix, "ENV"), (home_folder(), "~")):
        if path is not None:
            text = _without_path(text, path, mark)
    names = set()
    for pattern, mark in _patterns("report", "named"):
        names |= {(name, mark) for name in pattern.findall(text)}
    for pattern, mark in _patterns("report", "patterns"):
        text = pattern.sub(mark, text)
    common = _table()["part"]["common"]
    node = platform.node()
    host = node.partition(".")[0]
    own = {(node, "HOST"), (host, "HOST"), (user, "USER")}
    # Those of a log may be another machine's. One with a domain comes first.
    for name, mark in sorted(names - own, reverse=True):
        # Who is called as a package keeps its name.
        if not (re.fullmatch(common, name) or f"-packages/{name}" in text):
            word = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
            if mark == "HOST":
                word += r"(?:\.[A-Za-z][\w-]+)*"
            text = re.sub(word, mark, text)
    return _without_own_names(text, sorted(own, reverse=True))


def _without_own_names(text: str, names: list[tuple[str, str]]) -> str:
    # Not everywhere: a user may be called as a package is.
    for name, mark in names:
        word = re.escape(name)
        if name and not name.isdecimal():
            text = re.sub(rf"(?<=[/\\@]){word}\b|\b{word}(?=[@:]\S)", mark, text)
    return text


def _without_path(text: str, path: Path, mark: str) -> str:
    forms = {os.path.abspath(path), os.path.realpath(path)}  # noqa: PTH100
    for form in sorted(forms - {"/", "/usr", "/usr/local"}, key=len, reverse=True):
        text = re.sub(rf"{re.escape(form)}(?![\w.-])", mark, text)
    return text
