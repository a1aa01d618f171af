"""Which results of a target's last build stand, so that a small change need not run all checks.

One rule: the results of the device's checks stand where all that the last build had is
unchanged, and what was added is pure Python that no start of Python or torch runs.
"""

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.prefix import environment_python, site_packages
from provision.core.project import Project
from provision.environment.installed import installed_distributions
from provision.environment.reading import read_text
from provision.lockfile.pip import Lock
from provision.report.history import history, read_reports, suite_digest
from provision.report.model import Report

# Native libraries, and modules that each start of Python runs.
_ACTIVE = (".so", ".pyd", ".dll", ".dylib", ".pth", "customize.py", "_virtualenv.py")


def basis_of(
    prefix: Path, lock: Lock, project: Project, facts: Mapping[str, Any]
) -> str:
    """Return the SHA-256 of what is no distribution: facts, machine, interpreter, suite."""
    python = [read_text(prefix / "pyvenv.cfg"), sha256_file(environment_python(prefix))]
    runner = importlib.metadata.version("pytest")
    machine = [platform.node(), platform.platform(), lock.conda]
    text = json.dumps([facts, python, runner, machine, suite_digest(project)])
    # A prefix has the name of its lock, which says no more than the distributions.
    return sha256_bytes(text.replace(prefix.name, "").encode())


def distributions_of(prefix: Path, lock: Lock) -> dict[str, str]:
    """Return what is installed by name; the user's own packages, in no lock, as "changed"."""
    hashes = {each.name: f"{each.version} {each.sha256}" for each in lock.artifacts}
    site = site_packages(prefix)
    installed = installed_distributions(site) if site else []
    return {each.name: hashes.get(each.name, "changed") for each in installed}


def standing(
    project: Project, target: str, prefix: Path, basis: str, now: dict[str, str]
) -> Report | None:
    """Return the report of the last build if the results of its device's checks stand."""
    unreadable: list[str] = []
    reports = [*read_reports(history(project, target), unreadable.append)]
    if unreadable:  # what it said is not known
        return None
    while reports and reports[-1].proves and not reports[-1].basis:
        reports.pop()  # a run since then that found nothing
    if not reports or not reports[-1].proves or reports[-1].basis != basis:
        return None
    before = reports[-1].closures
    same = all(now.get(name) == before[name] != "changed" for name in before)
    added = now.keys() - before.keys()
    return reports[-1] if same and _are_pure(prefix, added) else None


def _are_pure(prefix: Path, names: set[str]) -> bool:
    """Whether distributions are Python alone, and run only where they are imported."""
    site = site_packages(prefix)
    for each in installed_distributions(site) if site else []:
        if each.name in names:
            record = (each.folder / "RECORD").read_text(encoding="utf-8")
            files = [line.rsplit(",", 2)[0].strip('"') for line in record.splitlines()]
            if any(file.endswith(_ACTIVE) or ".so." in file for file in files):
                return False
            if "[torch" in read_text(each.folder / "entry_points.txt"):
                return False
    return True
