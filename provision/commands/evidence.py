"""The verb ``evidence``: sign what was proven here, and judge what others have signed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from provision.core.errors import SpecError, ToolError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.project import Project
from provision.lockfile.pip import read_lock
from provision.report.evidence import Statement, sign, statement, trusted_keys, verified
from provision.report.history import history, suite_digest
from provision.report.model import read_report
from provision.spec.model import Target


@dataclass(frozen=True, slots=True)
class Evidence:
    """One file of evidence."""

    file: Path
    """Path of the file."""
    state: Literal["valid", "stale", "refused"]
    """`valid`; `stale` where the target has another lock now; `refused`."""
    reason: str = ""
    """Why it is not valid; "" where it is."""
    target: str = ""
    """Name of the target; empty where the file cannot be read."""
    key: str = ""
    """Name of the key's file, without its ending; whose it is."""
    device: str = ""
    """As torch describes it."""
    driver: str = ""
    """Version; `-` for a CPU."""
    day: str = ""
    """When it was proven, ISO 8601."""
    checks: int = 0
    """How many checks it tells of."""


def emit(
    project: Project,
    target: Target,
    *,
    file: Path,
    key: Path,
    passphrase: Callable[[], str],
) -> Evidence:
    """Write signed evidence of a target's last full report; UsageError if that proves nothing."""
    full = [
        path for path in history(project, target.name) if path.stem.endswith("-full")
    ]
    found = read_report(full[-1]) if full else None
    lock = read_lock(project.lock(target.name))
    if found is None or found.lock != lock.digest:
        name = target.name
        raise UsageError(
            f"no report of the full suite is about the lock of {name}",
            remedy=f"`provision build {name}` and `provision smoke {name} --full` make one",
        )
    made = statement(found, suite_digest(project))
    write_atomic(file, sign(made, key, passphrase))
    return _evidence(file, made, key.stem)


def judge(project: Project, files: Sequence[Path], keys: Path) -> list[Evidence]:
    """Return the state of each file of evidence."""
    if not files:
        raise UsageError(
            "there is no evidence to verify",
            remedy="name the files, or put them into docs/evidence",
        )
    known = trusted_keys(keys)
    found = []
    for file in files:
        try:
            key, content = verified(file, known)
        except ToolError as error:
            found.append(Evidence(file, "refused", error.evidence))
        else:
            found.append(_evidence(file, content, key, _staleness(project, content)))
    return found


def _staleness(project: Project, content: Statement) -> str:
    (subject,) = content.subject
    try:
        now = read_lock(project.lock(subject.name)).digest
    except SpecError:
        return f"there is no lock of {subject.name} here"
    return (
        ""
        if now == subject.digest["sha256"]
        else f"{subject.name} has another lock now"
    )


def _evidence(file: Path, content: Statement, key: str, stale: str = "") -> Evidence:
    seen = content.predicate
    device, driver = seen.device.get("name", ""), seen.device.get("driver") or "-"
    return Evidence(
        file,
        "stale" if stale else "valid",
        stale,
        content.subject[0].name,
        key,
        str(device),
        str(driver),
        day=seen.started[:10],
        checks=len(seen.checks),
    )
