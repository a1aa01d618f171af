"""Bytecode that Python would run instead of the source that was verified.

``__pycache__`` is in no RECORD. A file of it is run if it names time and size of its source, or
says that the source does not matter; compiling that again shows whether it is its, once per hash.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import write_atomic
from provision.core.findings import Finding
from provision.core.interruption import in_threads
from provision.core.limits import read_parsed
from provision.core.process import Run, environment_python
from provision.core.text import plural
from provision.core.tree_hashing import sha256_below
from provision.environment.findings import finding
from provision.environment.seal import beside

# Run by the environment's own Python, whose marshal format and compiler it needs: -I -S, so that
# nothing of the environment is imported. Prints the files that are not their source's.
_COMPARE = """
import importlib.util, json, marshal, sys
bad = []
for name in json.load(sys.stdin.buffer):
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
        bad.append(name)
print(json.dumps(bad))
"""


def bytecode_findings(prefix: Path, site: Path, run: Run) -> Iterator[Finding]:
    """Yield one finding that names bytecode without a source, or of another source."""
    # The sources in site-packages and the interpreter of the environment were verified before.
    # Not that of other tools (a test runner, a JIT), which have another suffix or tag.
    sizes = {}
    for file in site.rglob("__pycache__/*.pyc"):
        if "-pytest-" not in file.name and file.is_file():
            sizes[str(file.relative_to(site))] = file.stat().st_size
    hashes = sha256_below(site, sizes)
    memory = beside(prefix, ".bytecode")
    try:
        compared = dict(read_parsed(memory, json.loads))
    except (OSError, ValueError, TypeError):
        compared = {}
    new = [path for path, digest in hashes.items() if compared.get(path) != digest]
    bad = _compare(environment_python(prefix), site, new, run)
    fine = {path: digest for path, digest in hashes.items() if path not in bad}
    if fine != compared:
        with contextlib.suppress(ToolError):  # an installation may be read-only
            write_atomic(memory, json.dumps(fine) + "\n")
    if bad:
        shown = sorted(path.replace(os.sep, "/") for path in bad)[:5]
        yield finding("foreign-bytecode", *shown, files=plural(len(bad), "file"))


def _compare(python: Path, site: Path, paths: list[str], run: Run) -> set[str]:
    """Return those of some paths below a folder whose bytecode is not that of their source."""
    top = f"{site}{os.sep}"

    def compare(share: list[str]) -> list[str]:
        text = json.dumps([top + path for path in share])
        done = run([python, "-I", "-S", "-B", "-c", _COMPARE], stdin=text)
        done.require("could not compare bytecode with its source")
        return [name.removeprefix(top) for name in json.loads(done.stdout)]

    workers = os.cpu_count() or 1
    count = min(workers, len(paths))
    shares = [paths[start::count] for start in range(count)]
    return set(chain.from_iterable(in_threads(compare, shares, workers)))
