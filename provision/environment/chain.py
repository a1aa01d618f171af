"""The link from a lock to the RECORD of an installed distribution.

The RECORD in an environment was written by the installer, and anybody can write it again. It counts
only if its digest, less what an installer adds, is that of the locked wheel: then its hashes are
those of the wheel, and files can be compared with them.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from provision.core.limits import read_bytes
from provision.environment.reading import read_text
from provision.lockfile.wheel_record import common_path, encoded, record_digest

if TYPE_CHECKING:
    from pathlib import Path

    from provision.environment.installed import InstalledDistribution
    from provision.lockfile.wheel_record import RecordEntry

# What uv writes in place of `#!python`; the second form is for paths with spaces, or that are
# longer than the 127 characters which Linux reads of such a line.
_FIRST_LINE = rb"(?:#!{0}|#!/bin/sh\n'''exec' (['\"]?){0}\1 \"\$0\" \"\$@\"\n' ''')(?=\r?\n)"
_PROGRAM = rb"[/\\](?:bin|Scripts)[/\\]python[0-9.]*w?(?:\.exe)?"
_PLACEHOLDERS = (b"#!python", b"#!pythonw")  # PEP 427; pythonw is for programs without a console


def record_digests(
    dist: InstalledDistribution, record: list[RecordEntry], prefix: Path, site: Path
) -> tuple[str, ...]:
    """Return the digests that the RECORD of its wheel may have had; the first is the likely one."""
    inside, own = site.relative_to(prefix).as_posix(), first_line(prefix)
    places = {(common_path(line.path, inside), line) for line in record}
    scripts = {(place, line) for place, line in places if place.startswith("../bin/")}
    lines = [(place, line.hash) for place, line in places - scripts]
    made = _launchers(dist)
    # Without those that the installer made for entry points, and as they were before it wrote the
    # interpreter into their first line.
    shipped = [
        (p, line.hash, read_script(site / line.path)) for p, line in scripts if p not in made
    ]
    found: dict[str, None] = {}
    for start in _PLACEHOLDERS:
        before = [(p, _hash(own.match(text), start) or hash_) for p, hash_, text in shipped]
        found[record_digest([*lines, *before])] = None
    return tuple(found)


def _hash(match: re.Match[bytes] | None, start: bytes) -> str:
    """Return the hash of a script with another first line; "" of one for another interpreter."""
    if match is None:
        return ""
    return encoded(hashlib.sha256(start + match.string[match.end() :]).digest())


def _launchers(dist: InstalledDistribution) -> set[str]:
    """Return the paths of the programs that an installer makes for its entry points."""
    import configparser  # noqa: PLC0415 - for files that are hashed only

    parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(read_text(dist.folder / "entry_points.txt"))
    except configparser.Error:
        return set()
    kinds = filter(parser.has_section, ("console_scripts", "gui_scripts"))
    names = [name for kind in kinds for name in parser.options(kind)]
    return {f"../bin/{name}{suffix}" for name in names for suffix in ("", ".exe")}


def first_line(prefix: Path) -> re.Pattern[bytes]:
    """Return what the first line of a script is that runs in an environment."""
    # Both, since the caller may know the environment by a link to it.
    paths = (re.escape(str(path).encode()) for path in (prefix, prefix.resolve()))
    interpreter = b"(?:" + b"|".join(paths) + b")" + _PROGRAM
    return re.compile(_FIRST_LINE.replace(b"{0}", interpreter))


def read_script(path: Path) -> bytes:
    """Return the content of a script; nothing where it is too long for one or cannot be read."""
    try:
        return read_bytes(path)
    except OSError:
        return b""
