"""What the reports of this host say for a search: when a check was last good, and of which lock."""

from collections.abc import Callable
from pathlib import Path

from packaging.version import InvalidVersion, Version

from provision.commands.basis import CHANGED
from provision.commands.bisect_judges import Seen, result_of, seen_of
from provision.commands.bisect_result import BisectRequest
from provision.core.errors import UsageError
from provision.core.project import Project
from provision.environment.manifest import Generation, finished_generations
from provision.lockfile.pip import Lock
from provision.report.history import history, read_reports, suite_digest
from provision.report.layers import changed_layers
from provision.report.model import Report
from provision.spec.model import Target, requirement_name

Note = Callable[[str], None]


def failing_checks(project: Project, target: Target, note: Note) -> list[str]:
    """Return the checks that failed in the last report of a target."""
    paths = reversed(history(project, target.name))
    reports = list(read_reports(paths, note))
    return [check.id for check in reports[0].failed] if reports else []


class Past:
    """The reports of a target on this host, in which a check or a program is looked up."""

    def __init__(self, request: BisectRequest, note: Note) -> None:
        self._request = request
        self._check = request.check
        paths = reversed(history(request.project, request.target.name))
        self._reports = list(read_reports(paths, note))  # the newest first

    def suite(self) -> str:
        """Return the suite that last ran the check; the full one has all."""
        for report in self._reports:
            if result_of(report, self._check) and report.suite != "gate":
                return report.suite
        return "full"

    def last_good(self) -> Report | None:
        """Return the last report in which the check passed; of a program, one that proves its lock."""
        return next(filter(self._is_good, self._reports), None)

    def _is_good(self, report: Report) -> bool:
        if not report.lock:
            return False
        if not self._check:  # of the present lock a program says the contrary
            return report.proves and report.lock != self._request.lock.digest
        if report.compared in {"slower", "worse"}:  # which of its checks, nobody noted
            return False
        result = result_of(report, self._check)
        return result is not None and result.outcome == "passed"

    def seen(self, lock: Lock, symptom: str) -> Seen | None:
        """Return what the last report says of the check with a lock, if nothing changed since.

        ``symptom``: how the check itself fails at the bad end. Without one, that it passed says too
        little: it may be slow.
        """
        if not self._check:
            return None
        for report in self._reports:
            if report.lock == lock.digest and result_of(report, self._check):
                if changed_layers(report, self._request.layers, lock.digest):
                    return None
                if report.files != suite_digest(self._request.project):
                    return None
                seen = seen_of(report, self._check)
                if symptom or seen.outcome in {"failed", "warned"}:
                    return seen
                return None
        return None

    def good_versions(self) -> dict[str, str]:
        """Return what was installed when it was last good; as far as it is known any more."""
        good = self.last_good()
        if good is None:
            return {}
        generations = _generations(self._request.home, good.lock)
        if generations:
            return generations[0].record.versions
        for report in (good, *self._reports):
            if report.lock == good.lock and report.closures:
                return _of_closures(report.closures)
        return {"torch": good.torch} if good.torch else {}


def _of_closures(closures: dict[str, str]) -> dict[str, str]:
    versions = {}
    for name, text in closures.items():
        version, _, rest = text.partition(" ")
        if text != CHANGED and version != "own" and rest:
            versions[name] = version
    return versions


def changed_package(target: Target, before: dict[str, str], lock: Lock) -> str:
    """Return the package whose release changed since versions were good: torch if it did.

    UsageError: several did, or none is known to have and torch is not locked.
    """
    changed: dict[str, str] = {}
    for name, version in lock.versions.items():
        if name in before and not _same(before[name], version):
            changed[name] = f"{name} {before[name]} -> {version}"
    if "torch" in changed or (not changed and "torch" in lock.versions):
        return "torch"
    required = set(map(requirement_name, target.pip.requirements))
    named = [name for name in changed if name in required] or list(changed)
    if len(named) == 1:
        return named[0]
    cause = "no report of this host tells what changed since it was good"
    if named:
        changes = ", ".join(changed[name] for name in named)
        cause = f"since it was good these changed: {changes}"
    raise UsageError(
        f"{target.name}: which package is to be searched?",
        cause=cause,
        remedy="name one with --package",
    )


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def is_built(home: Path, lock: Lock) -> bool:
    """Whether a finished generation of a lock is below a target's folder, as its build left it.

    One that was edited is built again.
    """
    generations = _generations(home, lock.digest)
    return not all(generation.drifted() for generation in generations)


def _generations(home: Path, digest: str | None) -> list[Generation]:
    """Return the finished generations of a lock below a target's folder, which may be absent."""
    if not home.is_dir():
        return []
    every = finished_generations(home)
    return [generation for generation in every if generation.record.lock == digest]
