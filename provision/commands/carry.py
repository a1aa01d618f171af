"""Which results of a target's last build stand, so that a small change need not run all checks.

Only a build's, made on this host from verified files, and only while nothing differs of the *basis*
(all that is not a package, and what runs at each start of Python or import of torch) and of the
*closure* of each distribution that the check names: all that it may require, extras included.
"""

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from provision.core.errors import ToolError
from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.prefix import site_packages
from provision.core.process import environment_python
from provision.core.project import Project
from provision.environment.installed import (
    InstalledDistribution,
    installed_distributions,
    name_of,
)
from provision.environment.reading import read_text
from provision.lockfile.pip import Lock
from provision.report.history import history, suite_digest
from provision.report.model import Report, read_report

CARRIED = "carried"  # the suite's reason, and the key of a report
# Of the terminal and the session, and the search path of programs: no check that can be carried
# reads them. Windows searches PATH for libraries too.
_VOLATILE = {"TERM", "COLUMNS", "NO_COLOR", "CI", "TMPDIR", "XDG_RUNTIME_DIR"} | (
    set() if sys.platform == "win32" else {"PATH"}
)
_HOOKS = ("*.pth", "sitecustomize*", "usercustomize*", "_virtualenv*")


class Facts(NamedTuple):
    """What decides the results of a run: SHA-256 of its basis, and of each closure by name."""

    basis: str
    closures: dict[str, str]


class Earlier(NamedTuple):
    """The report of the last build, and the ids of the checks that did not pass since."""

    report: Report
    doubtful: set[str]

    def request(self, now: Facts) -> dict[str, list[str]]:
        """Return what the suite may leave out, for ``expect.json``."""
        then, report = self.report.closures, self.report
        names = then.keys() | now.closures.keys()
        same = {
            name for name, own in now.closures.items() if own and then.get(name) == own
        }
        passed = {
            c.id for c in (*report.checks, *report.carried) if c.outcome == "passed"
        }
        settled = passed | {entry.id for entry in report.not_run if not entry.owed}
        return {
            "settled": sorted(settled - self.doubtful),
            "changed": sorted(names - same),
        }

    def complete(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a report with the results that the suite left out because they stand."""
        old = self.report.model_dump(mode="json", exclude={"counts"})
        results = {
            check["id"]: check | {"ran": old["started"]} for check in old["checks"]
        }
        results |= {check["id"]: check for check in old[CARRIED]}
        excused = {entry["id"]: entry for entry in old["not_run"]}
        entries = document.get("not_run", [])
        left = [entry for entry in entries if entry["reason"] == CARRIED]
        # What the suite left out without a result to carry is owed.
        rest = [
            excused.get(e["id"], e | {"owed": True})
            for e in left
            if e["id"] not in results
        ]
        device = {
            key: old[key]
            for key in ("torch", "device", "devices")
            if not document.get(key)
        }
        return (
            document
            | (device if left else {})
            | {
                CARRIED: [
                    results[entry["id"]] for entry in left if entry["id"] in results
                ],
                "not_run": [entry for entry in entries if entry not in left] + rest,
            }
        )


def earlier(project: Project, target: str, now: Facts) -> Earlier | None:
    """Return the last build's report if its basis is today's."""
    doubtful: set[str] = set()
    for path in reversed(history(project, target)):
        try:
            report = read_report(path)
        except ToolError:
            return None  # nobody knows what failed in it
        if report.basis:
            return Earlier(report, doubtful) if report.basis == now.basis else None
        doubtful |= {check.id for check in report.checks if check.outcome != "passed"}
        doubtful |= {entry.id for entry in report.missing}
    return None


def facts(
    prefix: Path,
    lock: Lock,
    project: Project,
    expected: Mapping[str, Any],
    host: Mapping[str, str],
) -> Facts:
    """Return what decides the results of a run in an environment that equals its lock."""
    site = site_packages(prefix)
    assert site is not None  # noqa: S101 - it was verified
    installed = installed_distributions(site)
    closures = _closures(installed, lock, expected["requirements"])
    by_name = {
        "packages",
        "requirements",
        "forbid",
    }  # checks of these depend on everything
    basis = [
        {key: value for key, value in expected.items() if key not in by_name},
        {key: value for key, value in host.items() if key not in _VOLATILE},
        [platform.node(), platform.platform(), lock.conda],
        [read_text(prefix / "pyvenv.cfg"), sha256_file(environment_python(prefix))],
        [importlib.metadata.version("pytest"), suite_digest(project)],
        list(_at_start(site, installed, closures)),
    ]
    # A prefix has the name of its lock, which says nothing else than the closures.
    text = json.dumps(basis, sort_keys=True).replace(prefix.name, "")
    # The user's own packages are in no lock, and may have changed.
    own = {name: "" for name in expected["requirements"] if name not in closures}
    return Facts(sha256_bytes(text.encode()), closures | own)


def _closures(
    installed: Iterable[InstalledDistribution], lock: Lock, required: Iterable[str]
) -> dict[str, str]:
    needs = {dist.name: {name_of(each) for each in dist.requires} for dist in installed}
    lines = {a.name: f"{a.name}=={a.version} {a.sha256}" for a in lock.artifacts}
    found = {}
    for name in lines:
        closure, fresh = {name}, {name}
        while fresh:
            fresh = {
                n for each in fresh for n in needs.get(each, ()) if n in lines
            } - closure
            closure |= fresh
        # One that the spec names is imported by a check, others are not.
        text = [str(name in required), *sorted(lines[each] for each in closure)]
        found[name] = sha256_bytes("\n".join(text).encode())
    return found


def _at_start(
    site: Path, installed: Iterable[InstalledDistribution], closures: Mapping[str, str]
) -> Iterator[str]:
    """Yield what runs in every process, or wherever torch is imported, with its distribution."""
    hooks = sorted(
        path for pattern in _HOOKS for path in site.glob(pattern) if path.is_file()
    )
    yield from (f"{path.name} {sha256_file(path)}" for path in hooks)
    for dist in installed:
        recorded = b"\n" + (dist.folder / "RECORD").read_bytes()
        # Entry points of torch's groups are loaded by `import torch`, whoever installed them.
        extends_torch = "[torch" in read_text(dist.folder / "entry_points.txt")
        if extends_torch or any(
            f"\n{path.name},".encode() in recorded for path in hooks
        ):
            yield f"{dist.name} {closures.get(dist.name)}"
