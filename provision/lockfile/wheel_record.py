"""The lines of the RECORD file of a wheel (PEP 376, PEP 627), and the digest that a lock keeps.

An installer sorts the lines, adds its own files, moves ``.data`` and writes the interpreter into
scripts. So the digest is over paths and hashes alone, in a form that all platforms share;
:mod:`provision.environment.files` computes it again from what is installed.
"""

import base64
import csv
import io
import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

from provision.core.hashing import sha256_bytes

# What installers write about the installation itself: it differs between two machines that have the
# same lock (times, local paths, the installer's name) and is not code.
INSTALLER_FILES = (
    "RECORD",
    "INSTALLER",
    "REQUESTED",
    "direct_url.json",
    "uv_cache.json",
)
_DATA = re.compile(r"[^/]+\.data/(scripts|headers|data|purelib|platlib)/")
_PLACES = {"scripts": "bin/", "headers": "include/any/", "data": ""}
_SITE = re.compile(r"(?:lib/python3\.\d+|Lib)/site-packages/")
_HEADERS = re.compile(r"^include/(?:site/)?(?:python3\.\d+/)?[^/]+/", re.IGNORECASE)


class RecordEntry(NamedTuple):
    """One line of a RECORD: a tuple of text, decoded on access, as there are 20,000 of them."""

    path: str  # relative to site-packages, with forward slashes
    hash: str  # such as sha256=bD8…; empty where the RECORD gives none, as of itself
    length: str  # bytes in decimal; may be empty as well

    @property
    def size(self) -> int | None:
        """Bytes; None where the RECORD gives none."""
        if self.length.isdecimal() and len(self.length) < 16:
            return int(self.length)
        return None

    @property
    def sha256(self) -> str | None:
        """Hexadecimal; None where the RECORD gives none, or another kind."""
        algorithm, _, value = self.hash.partition("=")
        if algorithm != "sha256":
            return None
        try:  # RECORD leaves out the padding (PEP 376, PEP 427)
            return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
        except ValueError:
            return None


def parse_record(text: str) -> list[RecordEntry]:
    """Return the lines of a RECORD; ``csv.Error`` if one is not CSV."""
    # Names may hold any sign that ends a line.
    rows = csv.reader(io.StringIO(text, newline=""))
    # Padded and cut: a damaged line may have fewer fields than three, or more.
    return [RecordEntry(*(*row, "", "")[:3]) for row in rows if row]


def encoded(digest: bytes) -> str:
    """Return a SHA-256 as RECORD writes it."""
    return f"sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def record_digest(lines: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a RECORD, from the path and hash of each line."""
    # A path is from :func:`common_path`, and the hash of a script is that of the file in the wheel.
    kept = {
        f"{path} {hash_}\n" for path, hash_ in lines if not _by_installer(path, hash_)
    }
    return sha256_bytes("".join(sorted(kept)).encode())


def _by_installer(path: str, hash_: str) -> bool:
    folder, _, name = path.rpartition("/")
    if folder.endswith(".dist-info") and "/" not in folder and name in INSTALLER_FILES:
        return True
    # pip lists the bytecode that it compiles.
    return not hash_ and path.endswith(".pyc")


def common_path(path: str, site: str = "") -> str:
    """Return a path as wheel and installation share it; ``site`` is relative to the prefix."""
    if match := _DATA.match(path):
        if match[1] not in _PLACES:  # purelib and platlib, which are site-packages
            return path[match.end() :]
        path = _PLACES[match[1]] + path[match.end() :]
    elif path.startswith("../"):
        path = posixpath.normpath(f"{site}/{path}")
    else:
        return path
    if match := _SITE.match(path):
        return path[match.end() :]
    if path.startswith("Scripts/"):  # of Windows
        path = f"bin/{path.removeprefix('Scripts/')}"
    return "../" + _HEADERS.sub("include/", path, count=1)
