"""The link from a lock to the RECORD of an installed distribution.

The RECORD in an environment was written by the installer, and anybody can write it again. It counts
only if its digest, less what an installer adds, is that of the locked wheel: then its hashes are
those of the wheel, and files can be compared with them.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

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
    """Return the digests that the RECORD of its wheel may have had; the first is the likely one.

    Args:
        dist: The distribution.
        record: Its RECORD.
        prefix: The environment.
        site: The site-packages folder.
    """
    launchers, own = _launchers(dist), first_line(prefix)
    inside = site.relative_to(prefix).as_posix()
    places = [(common_path(line.path, inside), line) for line in record]
    lines = [(place, line.hash) for place, line in places if not place.startswith("../bin/")]
    scripts = [p for p in places if p[0].startswith("../bin/") and p[0] not in launchers]
    found = (
        record_digest([*lines, *((p, _in_wheel(line, own, site, first)) for p, line in scripts)])
        for first in _PLACEHOLDERS
    )
    return tuple(dict.fromkeys(found))


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


def _in_wheel(script: RecordEntry, own: re.Pattern[bytes], site: Path, placeholder: bytes) -> str:
    """Return the hash of a script before an installer wrote the interpreter into its first line."""
    content = read_script(site / script.path)
    match = own.match(content)
    if match is None:  # a program, or a script for another interpreter: installed as it is
        return script.hash
    return encoded(hashlib.sha256(placeholder + content[match.end() :]).digest())


def first_line(prefix: Path) -> re.Pattern[bytes]:
    """Return what the first line of a script is that runs in an environment."""
    # Both, since the caller may know the environment by a link to it.
    paths = (re.escape(str(path).encode()) for path in (prefix, prefix.resolve()))
    interpreter = b"(?:" + b"|".join(paths) + b")" + _PROGRAM
    return re.compile(_FIRST_LINE.replace(b"{0}", interpreter))


def read_script(path: Path) -> bytes:
    """Return the content of a script; nothing where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
