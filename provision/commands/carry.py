"""Which results of a target's last build stand, so that a small change need not run all checks.

One rule: the device's checks stand if nothing that the last build had is different now, and what
was added is pure Python that no start of Python or torch runs. In doubt all checks are run.
"""

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.prefix import environment_python
from provision.core.project import Project
from provision.environment.contents import Contents
from provision.environment.reading import read_text
from provision.lockfile.pip import Lock
from provision.report.history import history, read_reports, suite_digest
from provision.report.model import Report

# Native libraries, and modules that each start of Python runs.
_ACTIVE = (".so", ".pyd", ".dll", ".dylib", ".pth", "customize.py", "_virtualenv.py")


@dataclass(frozen=True, slots=True)
class Basis:
    """What the results of a build rest on, as its report keeps it."""

    basis: (
        str  # SHA-256 of all but distributions: machine, interpreter, suite, promises
    )
    closures: dict[str, str]  # version and SHA-256 by name; "changed" of own packages
    native: frozenset[str]  # names of those that are more than pure Python


def basis_of(
    project: Project, lock: Lock, contents: Contents, facts: Mapping[str, Any]
) -> Basis:
    """Return what results in an environment rest on, with the facts of target and host."""
    prefix = contents.prefix
    locked = {one.name: f"{one.version} {one.sha256}" for one in lock.artifacts}
    closures, native = dict[str, str](), set[str]()
    for dist in contents.distributions:
        closures[dist.name] = locked.get(dist.name, "changed")
        files = [entry.path for entry in dist.entries]
        active = any(path.endswith(_ACTIVE) or ".so." in path for path in files)
        if active or "[torch" in read_text(dist.folder / "entry_points.txt"):
            native.add(dist.name)
    python = [read_text(prefix / "pyvenv.cfg"), sha256_file(environment_python(prefix))]
    machine = [platform.node(), platform.platform(), lock.conda]
    tools = [importlib.metadata.version("pytest"), suite_digest(project)]
    text = json.dumps([facts, python, machine, tools])
    # A prefix has the name of its lock, which says no more than the distributions.
    digest = sha256_bytes(text.replace(prefix.name, "").encode())
    return Basis(digest, closures, frozenset(native))


def standing(project: Project, target: str, now: Basis) -> Report | None:
    """Return the report of the last build if the results of its device's checks stand."""
    last, unreadable = None, list[str]()
    for report in read_reports(history(project, target), unreadable.append):
        if not report.proves:
            last = None  # what failed since is run again
        elif report.basis:  # only builds have one
            last = report
    if unreadable or last is None or last.basis != now.basis:
        return None
    unchanged = last.closures.items() <= now.closures.items()
    added = now.closures.keys() - last.closures.keys()
    if unchanged and "changed" not in last.closures.values() and not added & now.native:
        return last
    return None
