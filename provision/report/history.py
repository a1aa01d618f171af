"""The stored reports of a target on this host, and those that a new one is compared with."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.report.model import comparable, read_report

if TYPE_CHECKING:
    from provision.core.project import Project
    from provision.report.model import Report

REPORTS = "reports"


def new_report(project: Project, target: str, suite: str) -> Path:
    """Return the path of a report that is written now; names sort by time.

    Where somebody else's installation is shared read-only, it lies in the user's own folder.
    """
    shared, own = _folders(project, target)
    folder = shared if os.access(project.environments(target), os.W_OK) else own
    return folder / f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S%fZ}-{suite}.json"


def history(project: Project, target: str) -> list[Path]:
    """Return the stored reports of a target, oldest first; the user's own are among them."""
    found = [path for folder in _folders(project, target) for path in folder.glob("*.json")]
    return sorted(found, key=lambda path: path.name)


def _folders(project: Project, target: str) -> tuple[Path, Path]:
    """Return where reports lie: in the project, and in the user's own folder for this project."""
    if sys.platform == "win32":
        state = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:  # https://specifications.freedesktop.org/basedir-spec/latest/
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    where = hashlib.sha256(os.fsencode(project.root.resolve())).hexdigest()[:16]
    return project.environments(target) / REPORTS, state / "provision" / where / target / REPORTS


def last_report(project: Project, target: str) -> Report | None:
    """Return the newest report of a target, or None."""
    kept = history(project, target)
    return read_report(kept[-1]) if kept else None


def baseline(project: Project, target: str, after: Report) -> list[Report]:
    """Return the earlier reports that a report is compared with, oldest first.

    A file that is no report (another schema, cut short by a full disk) is left out: one of them
    must not end the comparison with all others.
    """
    found = []
    for path in history(project, target):
        with contextlib.suppress(ToolError):
            found.append(read_report(path))
    return comparable([report for report in found if report.started < after.started], after)
