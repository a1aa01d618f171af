"""Passwords and tokens in URLs: find them, keep them from being shown, use them where they belong.

All output passes through :func:`redact`. To programs, credentials go by environment variable: any
user can read a command. Every verb loads this module, so it imports little.
"""

import re

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
    from urllib.parse import urlsplit  # noqa: PLC0415 - not for redact()

    shown = (urlsplit(url).password or "$").startswith("$")
    return not shown or bool(re.search(_IN_PATH, url) or _QUERY.search(url))


def login_for(url: str, mirror: str | None) -> tuple[str, str] | None:
    """Return the user name and password of a mirror for a file on the same host."""
    # An index may link to files on any host, and must not learn to send the login there.
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - not for redact()

    index = urlsplit(mirror or "")
    if index.username is None or urlsplit(url).hostname != index.hostname:
        return None
    return unquote(index.username), unquote(index.password or "")
