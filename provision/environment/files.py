"""The files of an environment, hashed and compared with the RECORDs that name them.

A RECORD counts only if its digest, less what an installer adds, is that of the locked wheel.
Paths are strings relative to site-packages with forward slashes, as RECORD has them: for 20,000
files Path objects cost more than the comparison.
"""

import configparser
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from provision.core.findings import Finding
from provision.core.hashing import sha256_bytes
from provision.core.limits import read_if_any
from provision.core.text import plural, shortened
from provision.core.tree_hashing import sha256_below
from provision.environment.contents import Contents, Package
from provision.environment.findings import finding
from provision.environment.installed import InstalledDistribution
from provision.environment.reading import read_text
from provision.lockfile.wheel_record import (
    INSTALLER_FILES,
    RecordEntry,
    common_path,
    encoded,
    record_digest,
)

# What uv writes in place of `#!python`; the second form is for paths with spaces, or that are
# longer than the 127 characters which Linux reads of such a line.
_FIRST_LINE = (
    rb"(?:#!{0}|#!/bin/sh\n'''exec' (['\"]?){0}\1 \"\$0\" \"\$@\"\n' ''')(?=\r?\n)"
)
_PROGRAM = rb"[/\\](?:bin|Scripts)[/\\]python[0-9.]*w?(?:\.exe)?"
# PEP 427; pythonw is for programs without a console.
_PLACEHOLDERS = (b"#!python", b"#!pythonw")


def hash_files(contents: Contents, packages: Iterable[Package]) -> dict[str, str]:
    """Return the SHA-256 of every recorded file of packages that exists, each read once."""
    sizes = {}
    for package in packages:
        for line in package.entries:
            # Scripts, headers and shared data are outside the listed folders.
            if line.path in contents.sizes or line.path.startswith("../"):
                size = contents.size(line.path)
                if size >= 0:
                    sizes[line.path] = size
    return sha256_below(contents.site, sizes)


def unrecorded_findings(contents: Contents) -> Iterator[Finding]:
    """Yield one finding that names the files which no RECORD lists."""
    unrecorded = set(contents.sizes)
    for package in contents.packages:
        unrecorded -= {line.path for line in package.entries}
    if unrecorded:
        shown = shortened(sorted(unrecorded), 5)
        files = plural(len(unrecorded), "file")
        yield finding("unrecorded-file", *shown, files=files)


def damage_findings(
    package: Package, contents: Contents, hashes: dict[str, str]
) -> Iterator[Finding]:
    """Yield what is wrong with the files of one package; those without a hash go by size."""
    # A conda package may hold no file.
    if not package.entries and package.folder.suffix == ".dist-info":
        record = str(package.folder / "RECORD")
        yield finding("no-record", record, name=package.name or package.folder.name)
    changed = []
    for line in package.entries:
        # pip records the bytecode that it compiles; Python rewrites it at will.
        is_bytecode = "__pycache__/" in line.path
        if not is_bytecode and _has_changed(line, contents, hashes):
            changed.append(line.path)
    if changed:
        shown = shortened(changed, 5)
        files = plural(len(changed), "file")
        yield finding("changed-file", *shown, files=files, name=package.name)


def _has_changed(line: RecordEntry, contents: Contents, hashes: dict[str, str]) -> bool:
    # A link, or RECORD itself: it has to be there.
    if not line.hash and not line.length:
        return not os.path.lexists(contents.site / line.path)
    if line.path in hashes and (recorded := line.sha256):
        return hashes[line.path] != recorded
    size = contents.size(line.path)
    return size < 0 or line.size not in {None, size}


def tree_digest(contents: Contents, hashes: dict[str, str]) -> str:
    """Return one SHA-256 over the paths and hashes of all files, equal on every machine."""
    total = hashlib.sha256()
    prefix = contents.prefix
    first_line = _first_line(prefix)
    # A conda package's file may hold the prefix; its hash in the archive is the same everywhere.
    shipped: dict[str, str] = {}
    for package in contents.conda:
        shipped |= package.shipped
    for path, digest in sorted((hashes | shipped).items()):
        if path.endswith(".pyc") or path.rpartition("/")[2] in INSTALLER_FILES:
            continue
        outside = path.startswith("../") and path not in shipped
        if outside and (content := read_if_any(contents.site / path)):
            # The installer writes the interpreter's path into the first line of a script, in a
            # form that depends on the path's length; on Windows it is inside of the program.
            content = first_line.sub(b"", content, count=1)
            digest = sha256_bytes(content.replace(str(prefix).encode(), b"{prefix}"))  # noqa: PLW2901
        total.update(f"{path} {digest}\n".encode())
    return total.hexdigest()


def record_digests(
    dist: InstalledDistribution, prefix: Path, site: Path
) -> Iterator[str]:
    """Yield the digests that the RECORD of its wheel may have had; the first is the likely one."""
    inside = site.relative_to(prefix).as_posix()
    launchers = _launchers(dist)
    first_line = _first_line(prefix)
    lines = []
    scripts = []  # without the line into which the installer wrote this interpreter
    for line in dist.entries:
        place = common_path(line.path, inside)
        if place in launchers:
            continue
        match = None
        if place.startswith("../bin/"):
            match = first_line.match(read_if_any(site / line.path) or b"")
        if match:
            scripts.append((place, match.string[match.end() :]))
        else:
            lines.append((place, line.hash))
    for start in _PLACEHOLDERS:
        before = []
        for place, rest in scripts:
            before.append((place, encoded(hashlib.sha256(start + rest).digest())))
        yield record_digest([*lines, *before])


def _launchers(dist: InstalledDistribution) -> set[str]:
    """Return the paths of the programs that an installer makes for its entry points."""
    parser = configparser.RawConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    try:
        parser.read_string(read_text(dist.folder / "entry_points.txt"))
    except configparser.Error:
        return set()
    paths = set()
    for kind in filter(parser.has_section, ("console_scripts", "gui_scripts")):
        for name in parser.options(kind):
            paths |= {f"../bin/{name}", f"../bin/{name}.exe"}
    return paths


def _first_line(prefix: Path) -> re.Pattern[bytes]:
    """Return what the first line of a script is that runs in an environment."""
    # Both, since the caller may know the environment by a link to it.
    places = [str(prefix).encode(), str(prefix.resolve()).encode()]
    interpreter = b"(?:" + b"|".join(map(re.escape, places)) + b")" + _PROGRAM
    return re.compile(_FIRST_LINE.replace(b"{0}", interpreter))
