"""The stored reports of a target on this host, and those that a new one is compared with."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.report.model import comparable, read_report

if TYPE_CHECKING:
    from pathlib import Path

    from provision.core.project import Project
    from provision.report.model import Report

REPORTS = "reports"


def new_report(project: Project, target: str, suite: str) -> Path:
    """Return the path of a report that is written now; paths sort by time."""
    now = dt.datetime.now(dt.UTC)
    return project.environments(target) / REPORTS / f"{now:%Y%m%dT%H%M%S%fZ}-{suite}.json"


def history(project: Project, target: str) -> list[Path]:
    """Return the stored reports of a target, oldest first."""
    return sorted((project.environments(target) / REPORTS).glob("*.json"))


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
