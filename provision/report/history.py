"""The stored reports of a target on this host, and those that a new one is compared with."""

import datetime as dt
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from provision.core.errors import ToolError
from provision.core.hashing import sha256_bytes
from provision.core.project import Project
from provision.report.model import Report, comparable, read_report

REPORTS = "reports"
_OF_SUITE = ("*.py", "*.json", "*.ini")  # code, tables, and the settings of pytest
# Suite -> those that run all of its checks: a verdict of the quick one says nothing of the full one.
_COVERED_BY = {
    "quick": ("quick", "full"),
    "full": ("full",),
    "health": ("health", "full"),
}


def new_report(project: Project, target: str, suite: str) -> Path:
    """The path of a report that is written now; names sort by time."""
    # Where somebody else's installation is shared read-only, it is in the user's own folder.
    shared, private = _folders(project, target)
    folder = shared if os.access(project.environments(target), os.W_OK) else private
    return folder / f"{_now()}-{suite}.json"


def history(project: Project, target: str) -> list[Path]:
    """The stored reports of a target, oldest first; the user's own are among them."""
    shared, private = _folders(project, target)
    paths = {*shared.glob("*.json"), *private.glob("*.json")}
    # One of the future was named by a clock that was wrong: nobody knows its time, so it must not
    # pass for the newest for years.
    now = _now()
    return sorted(paths, key=lambda path: (path.name <= now, path.name))


def _now() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S%fZ}"


def _folders(project: Project, target: str) -> tuple[Path, Path]:
    """The folders of reports: in the project, and the user's own for this project."""
    shared = project.environments(target) / REPORTS
    private = project.private / target / REPORTS if project.private else shared
    return shared, private


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
    suite: str = "quick",
) -> Report | None:
    """The newest report about a target's lock that covers a suite, or its device of a number.

    None without any.
    """
    paths = history(project, target)
    if suite != "health":
        paths = [path for path in paths if not path.stem.endswith("-health")]
    for report in read_reports(reversed(paths), note):
        of_device = not device or report.scope in (device, "all")
        if of_device and report.suite in _COVERED_BY[suite]:
            return report
    return None


def baseline(
    project: Project, target: str, after: Report, note: Callable[[str], None]
) -> list[Report]:
    """The earlier reports that the newest report is compared with, oldest first."""
    reports = read_reports(history(project, target), note)
    return comparable([report for report in reports if report != after], after)


def suite_digest(project: Project) -> str:
    """Return the digest of the files of the suite, but for bytecode."""
    files = {}
    for kind in _OF_SUITE:
        for path in project.smoke.rglob(kind):
            name = path.relative_to(project.smoke).as_posix()
            files[name] = path.read_bytes()
    return digest_of_suite(files)


def digest_of_suite(files: Mapping[str, bytes]) -> str:
    """Hash the names and contents of a suite's files, given by their paths in its folder; SHA-256.

    With the line ends of every system, as git for Windows writes its own into a clone.
    """
    names = sorted(map(PurePosixPath, files))
    lines = []
    for name in names:
        if any(name.match(kind) for kind in _OF_SUITE):
            content = files[str(name)].replace(b"\r\n", b"\n")
            lines.append(f"{name} {sha256_bytes(content)}\n")
    return sha256_bytes("".join(lines).encode())
