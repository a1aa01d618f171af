"""The verb ``update``: refresh the catalogs from the network; the only verb that changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import parse_wheel_filename
from pydantic import ValidationError

from provision import catalog, web
from provision.download import fetch
from provision.engines import simple_index
from provision.errors import ProvisionError, ToolError
from provision.files import sha256_file, write_atomic
from provision.spec import faults_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pypi_simple import DistributionPackage
    from requests import Session

    from provision.catalog import Index, Wheel
    from provision.download import OnBytes
    from provision.progress import Progress
    from provision.spec import Target


@dataclass(frozen=True, slots=True)
class Reupload:
    """Another file under a name that the catalog knows; refused, the catalog keeps the old hash.

    Attributes:
        filename: The name.
        known: SHA-256 in the catalog.
        offered: SHA-256 that the index offers now.
    """

    filename: str
    known: str
    offered: str


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What an update found in one index.

    Attributes:
        index: Its name.
        added: Files that the catalog did not have.
        completed: Files of which hash, size, requirements or confirmation were learned.
        reuploads: Files that changed under their name; refused.
        vanished: Files that the index does not list any more; kept.
        errors: What failed; the distributions concerned are unchanged.
    """

    index: str
    added: tuple[str, ...]
    completed: tuple[str, ...]
    reuploads: tuple[Reupload, ...]
    vanished: tuple[str, ...]
    errors: tuple[ProvisionError, ...]

    @property
    def bad(self) -> bool:
        """Whether something needs a person's attention."""
        return bool(self.reuploads or self.errors)


@dataclass(frozen=True, slots=True)
class Updater:
    """All that updating needs besides the index.

    Attributes:
        folder: The catalog.
        targets: Their platforms and Pythons decide which files are of interest.
        downloads: Where files are put that must be read whole; parts stay there.
        progress: Told about the steps.
        on_bytes: Told of each piece of a download.
    """

    folder: Path
    targets: Sequence[Target]
    downloads: Path
    progress: Progress
    on_bytes: OnBytes

    def update(self, index: str) -> IndexUpdate:
        """Refresh one index, and write its snapshot if something was learned.

        Raises:
            SpecError: The snapshot cannot be read.
        """
        old = catalog.load(self.folder, index)
        names = {wheel.name for wheel in old.files}
        names |= {name for target in self.targets for name in target.pip.index.get(index, ())}
        ledger = _Ledger({wheel.filename: wheel for wheel in old.files})
        with web.session() as session:
            for name in sorted(names):
                self.progress.step(f"{index}: {name}")
                try:
                    self._name(session, old, name, ledger)
                except ProvisionError as error:
                    ledger.errors.append(error)
        self._write(index, old, ledger)
        return ledger.result(index)

    def _name(self, session: Session, old: Index, name: str, ledger: _Ledger) -> None:
        packages = simple_index.listing(session, old.url, name)
        known = [parse_wheel_filename(wheel.filename)[1] for wheel in old.of(name)]
        oldest = min(known, default=None)
        platforms = {(target.platform, target.python) for target in self.targets}
        for package in packages:
            before = ledger.wheels.get(package.filename)
            if before or simple_index.wanted(package.filename, platforms, oldest):
                ledger.note(package, before, self._learn(session, package, before))
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
            needs := simple_index.published_needs(session, package)
        ):
            facts |= _told(needs, "METADATA beside the wheel on its index")
        if "sha256" not in facts or "requires_dist" not in facts:
            facts |= self._read_whole(session, package, offered)
        try:
            return catalog.Wheel.model_validate(facts)
        except ValidationError as error:
            raise ToolError(
                f"{package.filename} has faults that a catalog must not hold",
                evidence="\n".join(faults_of(error)),
            ) from error

    def _read_whole(
        self, session: Session, package: DistributionPackage, offered: str | None
    ) -> dict[str, object]:
        path = fetch(session, package.url, self.downloads, package.filename, self.on_bytes)
        try:
            found = sha256_file(path)
            if offered and found != offered:
                raise ToolError(
                    f"{package.filename} is not the file that its index promises",
                    evidence=f"sha256 {found}, promised {offered}",
                    remedy="try again; if it stays so, tell the vendor",
                )
            needs = simple_index.wheel_needs(path)
            told = _told(needs, "the wheel's own METADATA")
            return told | {"sha256": found, "size": path.stat().st_size, "confirmed": True}
        finally:
            path.unlink()

    def _write(self, index: str, old: Index, ledger: _Ledger) -> None:
        if not (ledger.added or ledger.completed):
            return
        files = sorted(ledger.wheels.values(), key=_order)
        new = old.model_copy(update={"files": tuple(files)})
        write_atomic(self.folder / f"{index}.json", catalog.render(new))


class _Ledger:
    """What is being found out about one index."""

    def __init__(self, wheels: dict[str, Wheel]) -> None:
        self.wheels = wheels
        self.added: list[str] = []
        self.completed: list[str] = []
        self.reuploads: list[Reupload] = []
        self.vanished: list[str] = []
        self.errors: list[ProvisionError] = []

    def note(
        self, package: DistributionPackage, before: Wheel | None, now: Wheel | Reupload
    ) -> None:
        if isinstance(now, Reupload):
            self.reuploads.append(now)
        elif now != before:
            self.wheels[package.filename] = now
            (self.completed if before else self.added).append(package.filename)

    def result(self, index: str) -> IndexUpdate:
        return IndexUpdate(
            index,
            tuple(self.added),
            tuple(self.completed),
            tuple(self.reuploads),
            tuple(self.vanished),
            tuple(self.errors),
        )


def _told(needs: simple_index.Needs, basis: str) -> dict[str, object]:
    python = {"requires_python": needs.requires_python} if needs.requires_python else {}
    return {"requires_dist": needs.requires_dist, "basis": basis, **python}


def _order(wheel: Wheel) -> tuple[object, ...]:
    name, version, _, _ = parse_wheel_filename(wheel.filename)
    return name, version, wheel.filename
