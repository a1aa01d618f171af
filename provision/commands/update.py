"""The verb ``update``: refresh the catalogs from the network; the only verb that changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from pydantic import ValidationError

from provision.artifacts.resumable_download import download
from provision.catalog import simple_index
from provision.catalog.snapshot import (
    Wheel,
    is_channel,
    load_channel,
    load_index,
    render_snapshot,
    snapshot_names,
)
from provision.catalog.snapshot_update import RefreshResult, Reupload, SnapshotUpdate
from provision.core import network
from provision.core.errors import ProvisionError, ToolError
from provision.core.filesystem import write_atomic
from provision.core.hashing import sha256_file
from provision.resolver import conda_lock
from provision.spec.tables import faults_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pypi_simple import DistributionPackage
    from requests import Session

    from provision.artifacts.resumable_download import OnBytes
    from provision.catalog.snapshot import Channel, ChannelPackage, Index
    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.core.project import Project
    from provision.spec.model import Target


def update(
    project: Project,
    targets: Sequence[Target],
    downloads: Path,
    *,
    progress: Progress,
    on_bytes: OnBytes,
    run: Run,
    only: Sequence[str] = (),
) -> list[RefreshResult]:
    """Refresh snapshots of wheel indexes and conda channels.

    Args:
        project: Whose catalog.
        targets: All targets: their platforms, Pythons and wishes decide which files are of
            interest.
        downloads: Where files are put that must be read whole; parts stay there.
        progress: Told about the steps.
        on_bytes: Told of each piece of a download.
        run: The door, for the solver of conda channels.
        only: Indexes and channels to refresh; all if empty.

    Raises:
        SpecError: A snapshot is missing or has faults.
    """
    updater = Updater(project.catalog, targets, downloads, progress, on_bytes, run)
    return [updater.refresh(name) for name in only or snapshot_names(project.catalog)]


@dataclass(frozen=True, slots=True)
class Updater:
    """All that updating needs besides the index.

    Attributes:
        folder: The catalog.
        targets: Their platforms and Pythons decide which files are of interest.
        downloads: Where files are put that must be read whole; parts stay there.
        progress: Told about the steps.
        on_bytes: Told of each piece of a download.
        run: The door.
    """

    folder: Path
    targets: Sequence[Target]
    downloads: Path
    progress: Progress
    on_bytes: OnBytes
    run: Run

    def refresh(self, name: str) -> RefreshResult:
        """Refresh one snapshot, and write it if something was learned.

        Raises:
            SpecError: The snapshot cannot be read.
        """
        if is_channel(self.folder, name):
            return self._refresh_channel(name)
        return self._refresh_index(name)

    def _refresh_channel(self, name: str) -> RefreshResult:
        old = load_channel(self.folder, name)
        ledger = SnapshotUpdate({package.filename: package for package in old.packages})
        for wish in _distinct(self.targets, name):
            self.progress.step(f"{name}: {wish.name}")
            try:
                for package in conda_lock.latest_packages(wish, old.url, self.run):
                    ledger.note(package.filename, _unchanged(ledger.files, package))
            except ProvisionError as error:
                ledger.errors.append(error)
        if ledger.changed:
            files = sorted(ledger.files.values(), key=lambda p: (p.subdir, p.name, p.filename))
            self._write(name, old.model_copy(update={"packages": tuple(files)}))
        return ledger.result(name)

    def _refresh_index(self, index: str) -> RefreshResult:
        old = load_index(self.folder, index)
        names = {wheel.name for wheel in old.files}
        names |= {name for target in self.targets for name in target.pip.index.get(index, ())}
        ledger = SnapshotUpdate({wheel.filename: wheel for wheel in old.files})
        try:
            with network.session() as session:
                for name in sorted(names):
                    self.progress.step(f"{index}: {name}")
                    self._name(session, old, name, ledger)
        finally:  # also on Ctrl-C: what was downloaded and hashed need not be downloaded again
            if ledger.changed:
                files = sorted(ledger.files.values(), key=_order)
                self._write(index, old.model_copy(update={"files": tuple(files)}))
        return ledger.result(index)

    def _name(self, session: Session, old: Index, name: str, ledger: SnapshotUpdate[Wheel]) -> None:
        try:
            packages = simple_index.list_wheels(session, old.url, name)
        except ProvisionError as error:
            ledger.errors.append(error)
            return
        known = [parse_wheel_filename(wheel.filename)[1] for wheel in old.of(name)]
        oldest = min(known, default=None)
        platforms = {(target.platform, target.python) for target in self.targets}
        for package in packages:
            before = ledger.files.get(package.filename)
            if before or simple_index.is_wanted(package.filename, platforms, oldest):
                try:
                    ledger.note(package.filename, self._learn(session, package, before))
                except ProvisionError as error:
                    ledger.errors.append(error)
        listed = {package.filename for package in packages}
        ledger.vanished += [w.filename for w in old.of(name) if w.filename not in listed]

    def _learn(
        self, session: Session, package: DistributionPackage, before: Wheel | None
    ) -> Wheel | Reupload:
        """Return all that is known of a file now, or that it is not the file that it was."""
        offered = package.digests.get("sha256")
        if before and before.sha256 and offered and before.sha256 != offered:
            return Reupload(package.filename, before.sha256, offered)
        facts = before.model_dump(exclude_none=True) if before else {}
        facts |= {"filename": package.filename, "url": package.url.partition("#")[0]}
        facts |= {"size": package.size} if package.size else {}
        if offered:
            facts |= {"sha256": offered, "confirmed": True}
        if "requires_dist" not in facts and (
            needs := simple_index.published_metadata(session, package)
        ):
            facts |= _told(needs, "METADATA beside the wheel on its index")
        if "sha256" not in facts or "requires_dist" not in facts:
            facts |= self._read_whole(session, package, offered)
        try:
            return Wheel.model_validate(facts)
        except ValidationError as error:
            raise ToolError(
                f"{package.filename} has faults that a catalog must not hold",
                evidence="\n".join(faults_of(error, Wheel)),
            ) from error

    def _read_whole(
        self, session: Session, package: DistributionPackage, offered: str | None
    ) -> dict[str, object]:
        path = download(session, package.url, self.downloads, package.filename, self.on_bytes)
        try:
            found = sha256_file(path)
            if offered and found != offered:
                raise ToolError(
                    f"{package.filename} is not the file that its index promises",
                    evidence=f"sha256 {found}, promised {offered}",
                    remedy="try again; if it stays so, tell the vendor",
                )
            needs = simple_index.embedded_metadata(path)
            told = _told(needs, "the wheel's own METADATA")
            return told | {"sha256": found, "size": path.stat().st_size, "confirmed": True}
        finally:
            path.unlink()

    def _write(self, name: str, snapshot: Index | Channel) -> None:
        write_atomic(self.folder / f"{name}.json", render_snapshot(snapshot))


def _distinct(targets: Sequence[Target], channel: str) -> list[Target]:
    """Return one target for each different wish to a channel."""
    wishing = [t for t in targets if t.conda and channel in t.conda.channels]
    return list({(t.platform, t.conda): t for t in wishing}.values())


def _unchanged(
    known: Mapping[str, ChannelPackage], now: ChannelPackage
) -> ChannelPackage | Reupload:
    before = known.get(now.filename)
    if before is None:
        return now
    if before.sha256 != now.sha256:
        return Reupload(now.filename, before.sha256, now.sha256)
    return before


def _told(needs: simple_index.CoreMetadata, basis: str) -> dict[str, object]:
    python = {"requires_python": needs.requires_python} if needs.requires_python else {}
    return {"requires_dist": needs.requires_dist, "basis": basis, **python}


def _order(wheel: Wheel) -> tuple[object, ...]:
    name, version, _, _ = parse_wheel_filename(wheel.filename)
    return name, version, wheel.filename
