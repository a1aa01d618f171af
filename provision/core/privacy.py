"""What is private, and how it is kept from being shown: the one list of it.

All output passes through :func:`redact`, which every verb loads: this module imports little. A text
for somebody else passes through :func:`anonymize`, too. To programs, credentials go by environment
variable: any user can read a command.
"""

import os
import platform
import re
from pathlib import Path
from urllib.parse import urlsplit

from provision.core.findings import toml_table

# A user name alone counts: many services take an access token in its place.
# Greedy, up to the last @ before a slash: a password may hold one that is not percent-encoded.
_USERINFO = re.compile(r"(\w\w:/{1,2})[^/\s'\"<>]+@")
# The form of anaconda.org: https://host/t/<token>/channel. A $VARIABLE in its place is no secret.
_IN_PATH = r"/t/(?!\$)[^/\s'\"<>]+"
_URL_PATH = re.compile(rf"(://[^\s'\"<>]*?){_IN_PATH}")
# ?token=…, &X-Amz-Signature=…, the `sig` of Azure, and the like.
_QUERY = re.compile(
    r"(?i)([?&;][\w.%-]*(?:token|sig|signature|secret|passw(?:or)?d|pwd|auth|credential|key)=)"
    r"(?!\$)[^&;\s'\"<>#]+"
)
_HEADER = re.compile(
    r"(?i)((?:authorization|private-token|x-[\w-]*(?:token|key|auth))['\"]?\s*[:=]\s*(?:b?['\"])?)"
    r"(?:(?:basic|bearer|digest|token)\s+)?[^\s'\",]+"
)


def redact(text: str) -> str:
    """Return a text with the credentials of every URL and HTTP header replaced by ``***``."""
    text = _URL_PATH.sub(r"\1/t/***", _USERINFO.sub(r"\1***@", text))
    return _HEADER.sub(r"\1***", _QUERY.sub(r"\1***", text))


def holds_secret(url: str) -> bool:
    """Whether a URL holds a password or token itself, not the name of a ``$VARIABLE``."""
    shown = (urlsplit(url).password or "$").startswith("$")
    return not shown or bool(re.search(_IN_PATH, url) or _QUERY.search(url))


def anonymize(text: str, prefix: Path | None, user: str) -> str:
    """Return a text without homes, names of users and hosts, serial numbers and tokens.

    ``prefix`` is the environment that the text is about, ``user`` the one of this process.
    """
    table = toml_table(Path(__file__).with_suffix(".toml"))
    for path, mark in ((prefix, "ENV"), (Path.home(), "~")):
        if path is not None:
            text = _without_path(text, path, mark)
    names = set()
    for pattern, mark in table["named"]:
        names |= {(name, mark) for name in re.findall(pattern, text)}
    for pattern, mark in table["patterns"]:
        text = re.sub(pattern, mark, text)
    node = platform.node()
    own = {(node, "HOST"), (node.partition(".")[0], "HOST"), (user, "USER")}
    # Those of a log may be another machine's. One with a domain comes first.
    for name, mark in sorted(names - own, reverse=True):
        # Who is called as a package keeps its name.
        if not (re.fullmatch(table["common"], name) or f"-packages/{name}" in text):
            word = rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"
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
