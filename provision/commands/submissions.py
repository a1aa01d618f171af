"""``evidence submit`` and ``evidence check``: the files of the public matrix."""

import dataclasses
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from provision.catalog.devices import Devices, read_devices
from provision.commands.committed import Change, History, changed_since
from provision.commands.evidence import Evidence, evidence_of, staleness
from provision.core.errors import ProvisionError, SpecError, ToolError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.privacy import is_telling
from provision.core.project import Project
from provision.host.permissions import this_user
from provision.lockfile.pip import read_lock
from provision.report.evidence import Statement, self_signed, trusted_keys
from provision.report.history import suite_digest
from provision.report.submission import (
    contradictions,
    families_of,
    is_publishable,
    objections,
    of_driver,
    place_of,
    unchecked,
)
from provision.report.suite_checks import Suite, read_suite
from provision.spec.reader import load_target

_KEYS = "keys"
_KEPT = ".gitkeep"  # empty, keeps the folder of the keys in git


@dataclass(frozen=True, slots=True)
class Submission:
    """A file of evidence, in the place from which the public matrix is made."""

    file: Path
    """Path of the file below `docs/evidence`."""
    evidence: Evidence
    """What it says."""
    title: str
    """Title of the pull request that adds it."""
    commands: tuple[str, ...]
    """The commands of git that propose it."""


@dataclass(frozen=True)
class Entry:
    """One file of the matrix that is not refused."""

    evidence: Evidence
    content: Statement
    families: tuple[str, ...]
    """Families of `envs/catalog/devices.toml` that its device can be of, or `cpu`, `apple`, `sm_89`."""
    fingerprint: str
    """Of the key that signed it."""

    @property
    def run(self) -> str:
        """Digest of the report that it is about."""
        return self.content.predicate.report


class Refused(Exception):  # noqa: N818 - a result, of which the caller makes one of its own
    """Why a file may not be in the matrix, in a sentence."""


class Folder:
    """The folder of a project's evidence, with what each file is compared with."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.root = project.evidence
        self._read_runs: dict[str, Path] = {}

    @cached_property
    def _suite(self) -> str:
        return suite_digest(self.project)

    @cached_property
    def _checks(self) -> Suite:
        return read_suite(self.project.smoke)

    @cached_property
    def _devices(self) -> Devices:
        return read_devices(self.project.catalog)

    @cached_property
    def history(self) -> History:
        """What the project's commits had."""
        return History(self.project)

    @cached_property
    def _names(self) -> dict[str, str]:
        """Name of each key that the project names, by its id."""
        keys = trusted_keys(self.root / _KEYS)
        return {keyid: name for keyid, (name, _) in keys.items()}

    def files(self) -> list[Path]:
        """Return everything in the folder but the keys: whatever is there is shown or refused."""
        files = []
        for path in sorted(self.root.rglob("*")):
            if path.is_symlink() or not (path.is_dir() or self._is_of_keys(path)):
                files.append(path)
        return files

    def _is_of_keys(self, path: Path) -> bool:
        """Whether a file belongs into the folder of the keys, and is there."""
        if path.parent != self.root / _KEYS:
            return False
        is_mark = path.name == _KEPT and path.stat().st_size == 0
        return path.suffix == ".pub" or is_mark

    def read(self, file: Path, *, names: tuple[str, ...] = ()) -> Entry:
        """Return what a file says, wherever it is; Refused with the reason if it may not be shown."""
        if file.parent == self.root / _KEYS:
            raise Refused("only public keys, *.pub, belong into this folder")
        if not is_publishable(file):
            raise Refused("it is a link, no regular file, or larger than evidence is")
        try:
            signer, content = self_signed(file)
            target = load_target(self.project.specs, content.subject[0].name)
        except ToolError as error:
            raise Refused(error.evidence) from error
        except ProvisionError as error:
            why = f"it is about no target of this project: {error.what}"
            raise Refused(why) from error
        _refuse(objections(content, target, self._devices, names))
        stale = staleness(self.project, content, self._suite)
        if not stale:
            lock = read_lock(self.project.lock(target.name))
            _refuse(contradictions(content, lock))
            _refuse(of_driver(content, target, self._devices))
            _refuse(unchecked(content, target, lock, self._checks))
        key = self._names.get(signer.keyid, signer.fingerprint)
        families = tuple(families_of(content, target, self._devices))
        evidence = evidence_of(file, content, key, stale)
        return Entry(evidence, content, families, signer.fingerprint)

    def place(self, entry: Entry) -> Path:
        """Return the path that an entry has to have."""
        return self.root / place_of(entry.content, entry.families)

    def read_in_place(self, file: Path) -> Entry:
        """Return what a file of the folder says; Refused also where its name says something else."""
        entry = self.read(file)
        place = self.place(entry)
        if place != file:
            name = place.relative_to(self.root).as_posix()
            raise Refused(
                f"its content belongs into {name}: its own name says something else"
            )
        first = self._read_runs.setdefault(entry.run, file)
        if first != file:
            raise Refused(f"it is of the same run as {first.name}, which counts once")
        return entry


def _refuse(objections: Iterable[str]) -> None:
    """Raise Refused for the first objection, if there is one."""
    for objection in objections:
        raise Refused(objection)


def read_matrix(project: Project) -> list[Entry]:
    """Return the entries of the matrix; SpecError if the folder has a file that is refused."""
    folder = Folder(project)
    entries = []
    for file in folder.files():
        try:
            entries.append(folder.read_in_place(file))
        except Refused as refused:
            raise SpecError(
                f"{file} is no evidence for the matrix",
                evidence=str(refused),
                remedy="`provision evidence check` names all such files; remove it",
            ) from refused
    return entries


def check_folder(project: Project, since: str) -> list[Evidence]:
    """Return the state of each file of the matrix, with what only the git history tells.

    With ``since``, a commit, files that were added after it may not be stale, and no other file
    may have changed.
    """
    folder = Folder(project)
    place = project.evidence.relative_to(project.root).as_posix()
    changes = changed_since(project, since, place) if since else []
    results = []
    added = set[Path]()
    for change in changes:
        file = project.root / change.path
        if change.is_added:
            added.add(file)
        reason = _no_addition(change)
        if reason:
            results.append(Evidence(file, "refused", reason))
    refused = {result.file for result in results}
    for file in folder.files():
        if file not in refused:
            results.append(_checked(folder, file, is_new=file in added))
    keys = [file for file in sorted(added) if file.suffix == ".pub"]
    if len(added) > len(keys):
        reason = (
            "a submission gives its own key no name: propose that in another change"
        )
        results += [Evidence(file, "refused", reason) for file in keys]
    return results


def _no_addition(change: Change) -> str:
    """Return why a change is no new file, "" for one."""
    if not change.is_added:
        return "it belongs to others: evidence is only added"
    if change.mode not in ("", "100644"):
        return f"it is a program, a link or a module (git's mode {change.mode}), and no plain file"
    return ""


def _checked(folder: Folder, file: Path, *, is_new: bool) -> Evidence:
    try:
        entry = folder.read_in_place(file)
        if is_new:
            _require_fresh(entry)
        if entry.evidence.state == "stale":
            _require_history(folder.history, entry.content)
            if not folder.history.has_suite:
                return _not_compared(entry.evidence)
    except Refused as refused:
        return Evidence(file, "refused", str(refused))
    return entry.evidence


def _require_fresh(entry: Entry) -> None:
    if entry.evidence.state == "stale":
        raise Refused(f"it is stale: {entry.evidence.reason}")


def _not_compared(stale: Evidence) -> Evidence:
    reason = f"{stale.reason}; whether its suite is one of Provision's is not compared"
    return dataclasses.replace(stale, reason=reason)


def _require_history(history: History, content: Statement) -> None:
    """Raise Refused for a lock or a suite that the project never had, if it has a suite at all."""
    (subject,) = content.subject
    lock = history.lock(subject.name, subject.digest["sha256"])
    if lock is None:
        raise Refused(f"its lock was never one of {subject.name}")
    _refuse(contradictions(content, lock))
    suite = content.predicate.checks_digest
    if suite == suite_digest(history.project) or not history.has_suite:
        return
    if not history.had_suite(suite):
        raise Refused("its suite of checks was never one of this project")


def submit(project: Project, file: Path) -> Submission:
    """Put a file of evidence into the folder of the matrix; UsageError, with the reason, if refused."""
    folder = Folder(project)
    try:
        entry = folder.read(file, names=_own_names())
        _require_fresh(entry)
        place = folder.place(entry)
        _require_first(folder, entry, place)
        _copy(file, place)
    except Refused as refused:
        raise UsageError(
            f"{file} cannot be submitted",
            evidence=str(refused),
            remedy="`provision evidence submit TARGET` checks this machine and makes a new one",
        ) from refused
    return _proposed(project, entry, place)


def _own_names() -> tuple[str, ...]:
    """Return the names of this machine and of its user, of which evidence has none."""
    node = platform.node()
    names = {node, node.partition(".")[0], this_user({}).name}
    return tuple(sorted(name for name in names if is_telling(name)))


def _proposed(project: Project, entry: Entry, place: Path) -> Submission:
    """Return what proposes a file of the folder."""
    (subject,) = entry.content.subject
    title = f"Evidence of {subject.name} on {entry.evidence.device}"
    path = place.relative_to(project.root).as_posix()
    branch = f"evidence-{subject.name}-{entry.run[:8]}"
    commands = (
        f"git switch --create {branch}",
        f"git add {path}",
        f'git commit --message "{_quotable(title)}" -- {path}',
        f"git push --set-upstream origin {branch}",
    )
    evidence = dataclasses.replace(entry.evidence, file=place)
    return Submission(place, evidence, title, commands)


def _quotable(text: str) -> str:
    """Return a text without signs that a shell or cmd.exe reads as more between double quotes."""
    return re.sub(r"[^A-Za-z0-9 .,:()@/+-]+", "", text)


def _require_first(folder: Folder, entry: Entry, place: Path) -> None:
    """Raise Refused if another file of the same target is of the same run."""
    for file in sorted(place.parent.glob("*.json")):
        if file != place and _run_of(folder, file) == entry.run:
            raise Refused(f"it is of the same run as {file.name}, which counts once")


def _run_of(folder: Folder, file: Path) -> str:
    """Return the run that a file of the folder is about, "" for one that is refused."""
    try:
        return folder.read(file).run
    except Refused:
        return ""


def _copy(file: Path, place: Path) -> None:
    """Write a file into its place, where nothing else is."""
    content = file.read_bytes()
    if place.is_symlink() or (place.exists() and place.read_bytes() != content):
        raise Refused(f"{place} is there already, from another signer")
    write_atomic(place, content)
