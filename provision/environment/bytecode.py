"""Bytecode that Python would run instead of the source that was verified.

Python writes ``__pycache__`` at will, so its files are in no RECORD. A file is run if it names
the time and the size of its source, or if it says that the source need not be looked at; whether it
is the source's is found out by compiling that again. What was compared once is remembered by its
hash, because compiling takes seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding, Level
from provision.core.hashing import sha256_below
from provision.core.process import environment_python
from provision.core.text import plural
from provision.environment.seal import beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provision.core.process import Run

# Run by the environment's own Python, whose marshal format and compiler it needs: -I -S, so that
# nothing of the environment is imported. Prints the files that are not their source's.
_COMPARE = """
import importlib.util, marshal, sys
for name in sys.stdin.read().splitlines():
    try:
        source = importlib.util.source_from_cache(name)
        level = name.partition(".opt-")[2][:1]
        with open(name, "rb") as file:
            head, found = file.read(16), file.read()
        with open(source, "rb") as file:
            text = file.read()
        fine = head[:4] != importlib.util.MAGIC_NUMBER or marshal.loads(found) == compile(
            text, source, "exec", dont_inherit=True, optimize=int(level or 0))
    except Exception:
        fine = False
    if not fine:
        print(name)
"""


def bytecode_findings(prefix: Path, site: Path, run: Run) -> Iterator[Finding]:
    """Yield one finding that names bytecode without a source, or of another source.

    Args:
        prefix: The environment, whose sources and interpreter were verified.
        site: The site-packages folder.
        run: Starts processes; see :func:`provision.core.process.run`.
    """
    sizes = {path: (site / path).stat().st_size for path in _files(site) if (site / path).is_file()}
    hashes = sha256_below(site, sizes)
    memory = beside(prefix, ".bytecode")
    known = _read(memory)
    wanted = [path for path, digest in hashes.items() if known.get(path) != digest]
    bad = _compare(environment_python(prefix), site, wanted, run)
    fine = {path: digest for path, digest in hashes.items() if path not in bad}
    if fine != known:
        with contextlib.suppress(ToolError):  # an installation may be read-only
            write_atomic(memory, json.dumps(fine) + "\n")
    if bad:
        yield Finding(
            "foreign-bytecode",
            Level.ERROR,
            f"{plural(len(bad), 'file')} of bytecode without a source, or not of its source",
            "a module was removed by hand, or the file was put there to be run instead of it",
            "`provision verify --repair` starts without bytecode",
            tuple(sorted(bad)[:5]),
        )


def _files(site: Path) -> Iterator[str]:
    for folder, _, names in os.walk(site):
        if os.path.basename(folder) == "__pycache__":  # noqa: PTH119 - tens of thousands of strings
            inside = os.path.relpath(folder, site).replace(os.sep, "/")
            # Not those of other tools (a test runner, a JIT), which have another suffix or tag.
            yield from (
                f"{inside}/{n}" for n in names if n.endswith(".pyc") and "-pytest-" not in n
            )


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _compare(python: Path, site: Path, paths: list[str], run: Run) -> set[str]:
    shares = [paths[start :: os.cpu_count() or 1] for start in range(os.cpu_count() or 1)]

    def compare(share: list[str]) -> list[str]:
        text = "".join(f"{site}{os.sep}{path}\n" for path in share)
        done = run([python, "-I", "-S", "-B", "-c", _COMPARE], stdin=text)
        return done.require("could not compare bytecode with its source").stdout.splitlines()

    with ThreadPoolExecutor(len(shares)) as pool:
        found = [name for names in pool.map(compare, filter(None, shares)) for name in names]
    return {Path(name).relative_to(site).as_posix() for name in found}
