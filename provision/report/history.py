"""The stored reports of a target on this host, and those that a new one is compared with."""

import datetime as dt
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.project import Project
from provision.report.model import Report, comparable, read_report

REPORTS = "reports"
_STAMP = "%Y%m%dT%H%M%S%fZ"  # names sort by time


def new_report(project: Project, target: str, suite: str) -> Path:
    """Return the path of a report that is written now; names sort by time."""
    # Where somebody else's installation is shared read-only, it lies in the user's own folder.
    shared, own = _folders(project, target)
    folder = shared if os.access(project.environments(target), os.W_OK) else own
    return folder / f"{dt.datetime.now(dt.UTC):{_STAMP}}-{suite}.json"


def history(project: Project, target: str) -> list[Path]:
    """Return the stored reports of a target, oldest first; the user's own are among them."""
    found = [
        path for folder in _folders(project, target) for path in folder.glob("*.json")
    ]
    # One of the future was named by a clock that was wrong: nobody knows its time, so it must not
    # pass for the newest for years.
    now = f"{dt.datetime.now(dt.UTC):{_STAMP}}"
    return sorted(found, key=lambda path: (path.name <= now, path.name))


def _folders(project: Project, target: str) -> tuple[Path, Path]:
    """Return where reports lie: in the project, and in the user's own folder for this project."""
    if sys.platform == "win32":
        state = Path(
            os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        )
    else:  # https://specifications.freedesktop.org/basedir-spec/latest/
        state = Path(
            os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        )
    where = sha256_bytes(os.fsencode(project.root.resolve()))[:16]
    return project.environments(
        target
    ) / REPORTS, state / "provision" / where / target / REPORTS


def read_reports(
    paths: Iterable[Path], note: Callable[[str], None]
) -> Iterator[Report]:
    """Yield the reports in files; one that is damaged must not stop all others, and is noted."""
    for path in paths:
        try:
            yield read_report(path)
        except ToolError as error:
            note(f"left out {path}: {error.evidence.partition(chr(10))[0]}")


def last_report(
    project: Project,
    target: str,
    note: Callable[[str], None] = lambda _: None,
    device: str = "",
) -> Report | None:
    """Return the newest report of a target, or of its device of a number, about its lock, or None.

    Files that cannot be read are left out.
    """
    kept = [
        path for path in history(project, target) if not path.stem.endswith("-health")
    ]
    found = read_reports(reversed(kept), note)
    return next(
        (each for each in found if not device or each.scope in (device, "all")), None
    )


def baseline(
    project: Project, target: str, after: Report, note: Callable[[str], None]
) -> list[Report]:
    """Return the earlier reports that the newest report is compared with, oldest first."""
    found = list(read_reports(history(project, target), note))
    if after in found:
        found.remove(after)
    return comparable(found, after)


def suite_digest(project: Project) -> str:
    """Return the SHA-256 over the names and hashes of the files of the suite."""
    folder = project.smoke
    files = sorted((*folder.rglob("*.py"), *folder.rglob("*.json")))
    lines = [
        f"{file.relative_to(folder).as_posix()} {sha256_file(file)}\n" for file in files
    ]
    return sha256_bytes("".join(lines).encode())
