"""Who names a distribution: requires it, imports a module of it, or has a name of it in quotes.

More is found than is used, and never less: a comment counts, and a name that another thing has, too.
"""

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from provision.core.filesystem import extended
from provision.environment.conda_meta import InstalledCondaPackage
from provision.environment.installed import InstalledDistribution, name_of

NATIVE = (".so", ".pyd", ".dll", ".dylib")


def is_native(path: str) -> bool:
    """Whether a recorded file is a native library."""
    return path.endswith(NATIVE) or ".so." in path


def modules_of(dist: InstalledDistribution) -> list[str]:
    """Return the top-level modules and packages that a distribution has installed."""
    modules = set()
    for entry in dist.entries:
        top = entry.path.partition("/")[0]
        if top != ".." and entry.path.endswith(".py"):
            modules.add(top.removesuffix(".py"))
    return sorted(modules)


def requires_any(dist: InstalledDistribution, names: Iterable[str]) -> bool:
    """Whether a distribution requires one of some others, be it for an extra or a platform."""
    return not set(names).isdisjoint(map(name_of, dist.requires))


def code_of(
    package: InstalledDistribution | InstalledCondaPackage, site: Path
) -> Iterator[Path]:
    """Yield the modules and the native libraries of a package, given the site-packages."""
    for entry in package.entries:
        if entry.path.endswith(".py") or is_native(entry.path):
            yield site / entry.path


def is_named(words: Iterable[str], files: Iterable[Path]) -> bool:
    """Whether a file imports or quotes one of some words; true if one cannot be read."""
    spelled = set()
    in_library = []
    for word in words:
        for form in (word, word.replace("-", "_"), word.replace("_", "-")):
            spelled.add(form.lower().encode())
            # As C keeps the name of a module, or of one in a package.
            in_library += [form.encode() + b"\0", form.encode() + b"."]
    either = b"|".join(map(re.escape, spelled))
    source = re.compile(
        rb"\b(?:from|import)\b(?:\\\n|[^\n])*\b(?:%b)\b|[\"'][^\n]*(?<![\w-])(?:%b)(?![\w-])"
        % (either, either)
    )
    return any(_names(path, spelled, source, in_library) for path in files)


def _names(
    path: Path, plain: set[bytes], source: re.Pattern[bytes], in_library: list[bytes]
) -> bool:
    try:
        with open(extended(path), "rb") as stream:  # noqa: PTH123 - beyond 259 characters
            if not is_native(path.name):
                text = stream.read().lower()
                found = any(word in text for word in plain)
                return found and source.search(text) is not None
            if not stream.seek(0, os.SEEK_END):
                return False  # mmap refuses it
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as library:
                return any(library.find(word) >= 0 for word in in_library)
    except OSError:
        return True
