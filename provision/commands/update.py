"""The verb ``update``: refresh the catalog from the network; the only verb that changes it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from provision.artifacts.resumable_download import download
from provision.artifacts.wheel_records import remote_record, wheel_record
from provision.catalog import simple_index, snapshot
from provision.catalog.snapshot import (
    Channel,
    ChannelPackage,
    DriverFile,
    DriverSet,
    Index,
    Interpreter,
    Interpreters,
    Wheel,
)
from provision.commands.renew import listed_pythons, packages_of_distribution, renewed
from provision.core import network
from provision.core.errors import ProvisionError, ToolError, UsageError, damage_in
from provision.core.filesystem import write_atomic
from provision.core.hashing import sha256_file
from provision.core.limits import read_text
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.wheel_name import parse_wheel_name
from provision.resolver import conda_lock
from provision.spec.model import Target
from provision.spec.tables import faults_of

if TYPE_CHECKING:
    from pypi_simple import DistributionPackage
    from requests import Session


FileT = TypeVar("FileT", "Wheel", "ChannelPackage", "DriverFile", "Interpreter")


@dataclass(frozen=True, slots=True)
class Reupload:
    """A different file under a name of the catalog; refused, the catalog keeps the old hash."""

    filename: str
    """Name of the file."""
    known: str
    """SHA-256 in the catalog."""
    offered: str
    """SHA-256 that the index lists now."""


@dataclass(slots=True)
class RefreshResult:
    """The changes of one refreshed snapshot."""

    name: str
    """Of the index, channel or driver release."""
    added: list[str] = field(default_factory=list)
    """Names of files that are new in the catalog."""
    completed: list[str] = field(default_factory=list)
    """Files whose hash, size, URL, requirements or confirmation were added."""
    reuploads: list[Reupload] = field(default_factory=list)
    """What was refused: the index offers another file under a known name."""
    vanished: list[str] = field(default_factory=list)
    """Files that the index no longer lists; kept, because a wheelhouse may have them."""
    yanked: list[str] = field(default_factory=list)
    """Files that the vendor withdrew, with the reason; kept as well."""
    errors: list[ProvisionError] = field(default_factory=list)
    """The files concerned are unchanged."""

    @property
    def bad(self) -> bool:
        """Whether the result needs a person's attention."""
        return bool(self.reuploads or self.errors)

    def record(self, files: dict[str, FileT], now: FileT) -> None:
        """Add the current entry of a file to a catalog's, or refuse it.

        A hash that differs from the one in the catalog is never taken over: the name is then
        for another file, and locks with the old hash would be silently replaced.
        """
        name = now.filename
        before = files.get(name)
        if now == before:  # an unchanged entry must not rewrite the file
            return
        if before is None:
            self.added.append(name)
        elif before.sha256 and now.sha256 and before.sha256 != now.sha256:
            self.reuploads.append(Reupload(name, before.sha256, now.sha256))
            return
        else:
            self.completed.append(name)
        files[name] = now


def update(
    project: Project,
    targets: Sequence[Target],
    progress: Progress,
    run: Run,
    *,
    only: Sequence[str] = (),
    url: str = "",
) -> list[RefreshResult]:
    """Refresh snapshots of wheel indexes, conda channels, driver releases and Pythons.

    With a URL, make that of a new index, whose name alone is given.
    """
    downloads = project.root / ".cache" / "update"
    updater = CatalogUpdater(project.catalog, targets, downloads, progress, run)
    if url:
        new = _new_index(project.catalog, targets, only, url)
        return [updater.refresh_index(only[0], new)]
    return [updater.refresh(name) for name in only or _names(project, targets)]


def _names(project: Project, targets: Sequence[Target]) -> list[str]:
    """Return the snapshots that targets name, and those of the project itself."""
    catalog = project.catalog
    names = {path.stem for path in catalog.glob("*.json") if "." not in path.stem}
    used = {target.docker.drivers for target in targets if target.docker}
    for name in names - used:
        if snapshot.is_kind(catalog, name, DriverSet):
            drivers = snapshot.load_snapshot(catalog, name, DriverSet)
            # Only the apt of a machine with that distribution has them.
            if packages_of_distribution(drivers):
                names.remove(name)
    for target in targets:
        names.update(target.pip.index, target.channels)
    return sorted(names)


def _new_index(
    catalog: Path, targets: Sequence[Target], names: Sequence[str], url: str
) -> Index:
    """Return the empty snapshot of an index that a spec names; UsageError if none does."""
    existing = snapshot.snapshot_names(catalog)
    is_new = len(names) == 1 and names[0] not in existing
    if not is_new or not snapshot.SNAPSHOT.fullmatch(names[0]):
        given = ", ".join(names) or "none"
        raise UsageError(
            f"--url goes with one new name, not with {given}",
            cause=f"there are {', '.join(existing)}",
            remedy="`provision update NAME --url URL`; NAME is lower-case words "
            "joined by '-'",
        )
    if not any(names[0] in target.pip.index for target in targets):
        raise UsageError(
            f"no spec takes a package from the index {names[0]}",
            cause="an update asks an index for the packages that a spec assigns "
            "to it, and for no other",
            remedy=f'write `{names[0]} = ["PACKAGE"]` into [pip.index] of a spec first',
        )
    try:
        return Index(url=f"{url.rstrip('/')}/", files=())
    except ValidationError as error:
        faults = "\n".join(faults_of(error, Index))
        raise UsageError(f"--url {url}", evidence=faults) from error


@dataclass(frozen=True, slots=True)
class CatalogUpdater:
    """Refreshes snapshots, for some targets."""

    folder: Path
    targets: Sequence[Target]
    downloads: Path
    progress: Progress
    run: Run

    def refresh(self, name: str) -> RefreshResult:
        """Refresh one snapshot, and write it if anything changed."""
        if snapshot.is_kind(self.folder, name, Channel):
            return self._refresh_channel(name)
        if snapshot.is_kind(self.folder, name, DriverSet):
            return self._refresh_drivers(name)
        if snapshot.is_kind(self.folder, name, Interpreters):
            return self._refresh_pythons(name)
        old = snapshot.load_snapshot(self.folder, name, Index)
        return self.refresh_index(name, old)

    def _refresh_channel(self, name: str) -> RefreshResult:
        old = snapshot.load_snapshot(self.folder, name, Channel)
        result = RefreshResult(name)
        requests = {}  # a target for each
        for target in self.targets:
            if name in target.channels:
                requests[target.platform, target.conda] = target
        with self._kept(old, result) as files:
            for target in requests.values():
                self.progress.step(f"{name}: {target.name}")
                with _errors_in(result):
                    latest = conda_lock.latest_packages(target, old.url, self.run)
                    for package in latest:
                        result.record(files, package)
        return result

    def _refresh_drivers(self, name: str) -> RefreshResult:
        """Hash the packages whose hash is not confirmed; a person chooses a vendor's versions."""
        old = snapshot.load_snapshot(self.folder, name, DriverSet)
        result = RefreshResult(name)
        if packages_of_distribution(old):
            self._renew_drivers(old, result)
            return result
        with self._kept(old, result) as files, network.session() as session:
            for file in old.files:
                if not file.confirmed:
                    self.progress.step(f"{name}: {file.filename}")
                    with _errors_in(result):
                        result.record(files, self._hashed(session, file))
        return result

    def _renew_drivers(self, old: DriverSet, result: RefreshResult) -> None:
        """Take the versions that apt of this machine has: a distribution keeps no older ones."""
        self.progress.step(f"{result.name}: apt-cache")
        names = packages_of_distribution(old)
        with _errors_in(result):
            shown = self.run(["apt-cache", "show", "--no-all-versions", *names])
            # A package that apt does not have is reported by its name.
            new = renewed(old, shown.stdout)
            files = {file.filename: file for file in old.files}
            for file in new.files:
                result.record(files, file)
            if new != old and not result.reuploads:
                self._write(result.name, new)

    def _refresh_pythons(self, name: str) -> RefreshResult:
        old = snapshot.load_snapshot(self.folder, name, Interpreters)
        result = RefreshResult(name)
        minors = {target.python for target in self.targets}
        for file in old.files:
            minors.add(f"{file.version.major}.{file.version.minor}")
        self.progress.step(f"{name}: the latest release")
        with (
            self._kept(old, result) as files,
            network.session() as session,
            _errors_in(result),
        ):
            release = self._text(session, old.url)
            with damage_in(old.url, "try again, or report it to its authors"):
                address = str(json.loads(release)["asset_url_prefix"])
            sums = self._text(session, f"{address}/SHA256SUMS")
            for file in listed_pythons(sums, address, minors):
                before = files.get(file.filename)
                sources = before.sources if before else ()
                result.record(files, file.model_copy(update={"sources": sources}))
        return result

    def _text(self, session: Session, url: str) -> str:
        name = url.rpartition("/")[2]
        path = download(session, url, self.downloads, name, self.progress)
        text = read_text(path)
        path.unlink()
        return text

    def _hashed(self, session: Session, file: DriverFile) -> DriverFile:
        url = str(file.url)
        path = download(session, url, self.downloads, file.filename, self.progress)
        facts = {
            "sha256": sha256_file(path),
            "size": path.stat().st_size,
            "confirmed": True,
        }
        path.unlink()
        return file.model_copy(update=facts)

    def refresh_index(self, index: str, old: Index) -> RefreshResult:
        """Refresh the snapshot of an index; one without an entry is not written."""
        result = RefreshResult(index)
        # The names in the snapshot too: an entry that no spec uses any more is kept and refreshed.
        names = {wheel.name for wheel in old.files}
        for target in self.targets:
            names.update(target.pip.index.get(index, ()))
        with self._kept(old, result) as files, network.session() as session:
            for name in sorted(names):
                self.progress.step(f"{index}: {name}")
                with _errors_in(result):
                    listed = simple_index.list_files(session, old.url, name)
                    packages = [file for file in listed if file.package_type == "wheel"]
                    self._refresh_name(session, old.of(name), packages, files, result)
        if not (files or result.errors):
            missing = ", ".join(sorted(names)) or index
            error = ToolError(
                f"{old.url} offers nothing for {missing}",
                cause="it lists no wheel for the platforms and Pythons of the specs, "
                "or it is no index",
                remedy=f"correct the address, or take {missing} from another index",
            )
            result.errors.append(error)
        return result

    def _refresh_name(
        self,
        session: Session,
        old: Sequence[Wheel],
        packages: Sequence[DistributionPackage],
        files: dict[str, Wheel],
        result: RefreshResult,
    ) -> None:
        versions = [parse_wheel_name(wheel.filename).version for wheel in old]
        oldest = min(versions, default=None)
        platforms = {target.machine for target in self.targets}
        for package in packages:
            filename = package.filename
            before = files.get(filename)
            if package.is_yanked:  # withdrawn by its vendor
                if before and package.yanked_reason:
                    result.yanked.append(f"{filename}: {package.yanked_reason}")
                elif before:
                    result.yanked.append(filename)
            elif before or simple_index.is_wanted(filename, platforms, oldest):
                with _errors_in(result):
                    result.record(files, self._describe(session, package, before))
        # Kept, not removed: a wheelhouse may still have a file that vanished, and its hash is valid.
        listed = {package.filename for package in packages}
        for wheel in old:
            if wheel.filename not in listed:
                result.vanished.append(wheel.filename)

    def _describe(
        self, session: Session, package: DistributionPackage, before: Wheel | None
    ) -> Wheel:
        """Return the entry of a wheel, completed by what its index offers now."""
        facts = before.model_dump(exclude_none=True) if before else {}
        facts |= _listed(package)
        # In the order of cost: metadata beside the wheel is a few kilobytes, a wheel of torch some
        # gigabytes; it is downloaded only where a hash or the metadata cannot be had otherwise.
        if "requires_dist" not in facts:
            metadata = simple_index.published_metadata(session, package)
            if metadata:
                facts |= metadata
                facts["basis"] = "METADATA beside the wheel on its index"
        if "sha256" not in facts or "requires_dist" not in facts:
            facts |= self._read_wheel(session, package)
        if "size" not in facts:  # pages in HTML state none
            with contextlib.suppress(ToolError):
                facts["size"] = network.content_length(session, package.url)
        if "record" not in facts and "size" in facts:
            facts["record"] = remote_record(session, package.url, facts["size"])
        try:
            return Wheel.model_validate(facts)
        except ValidationError as error:
            what = f"{package.filename} is not valid in a catalog"
            faults = "\n".join(faults_of(error, Wheel))
            raise ToolError(what, evidence=faults) from error

    def _read_wheel(
        self, session: Session, package: DistributionPackage
    ) -> dict[str, object]:
        name = package.filename
        path = download(session, package.url, self.downloads, name, self.progress)
        try:
            digest = sha256_file(path)
            offered = package.digests.get("sha256")
            if offered and digest != offered:
                raise ToolError(
                    f"{name} does not have the hash that its index lists",
                    evidence=f"sha256 {digest}, listed {offered}",
                    remedy="try again; if it persists, report it to the vendor",
                )
            facts = simple_index.embedded_metadata(path)
            facts["basis"] = "the wheel's own METADATA"
            facts |= {"sha256": digest, "size": path.stat().st_size, "confirmed": True}
            facts["record"] = wheel_record(path)
            return facts
        finally:
            path.unlink()  # gigabytes that are not needed again once hashed

    @contextlib.contextmanager
    def _kept(
        self, old: Index | Channel | DriverSet | Interpreters, result: RefreshResult
    ) -> Iterator[dict[str, Any]]:
        """Give a snapshot's files by their names, to be changed, and write them.

        On Ctrl-C too: what was got need not be downloaded and hashed again.
        """
        key = "packages" if isinstance(old, Channel) else "files"
        files = {file.filename: file for file in getattr(old, key)}
        try:
            yield files
        finally:
            if result.added or result.completed:
                ordered = tuple(sorted(files.values(), key=_sort_key))
                new = old.model_copy(update={key: ordered})
                self._write(result.name, new)

    def _write(
        self, name: str, new: Index | Channel | DriverSet | Interpreters
    ) -> None:
        path = self.folder / f"{name}.json"
        write_atomic(path, snapshot.render_snapshot(new))


def _listed(package: DistributionPackage) -> dict[str, Any]:
    """Return the facts of a wheel that its index lists."""
    url = package.url.partition("#")[0]
    facts: dict[str, Any] = {"filename": package.filename, "url": url}
    if package.size:
        facts["size"] = package.size
    digest = package.digests.get("sha256")
    if digest:
        facts |= {"sha256": digest, "confirmed": True}
    return facts


@contextlib.contextmanager
def _errors_in(result: RefreshResult) -> Iterator[None]:
    try:
        yield
    except ProvisionError as error:
        result.errors.append(error)


def _sort_key(
    file: Wheel | ChannelPackage | DriverFile | Interpreter,
) -> tuple[object, ...]:
    if isinstance(file, Wheel):
        wheel = parse_wheel_name(file.filename)
        return wheel.name, wheel.version, file.filename
    if isinstance(file, ChannelPackage):
        return file.subdir, file.name, file.filename
    if isinstance(file, Interpreter):
        return file.version, file.filename
    return ()  # in the order that a person wrote
