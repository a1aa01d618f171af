"""Resolve a spec with the catalog to the text of a lock; writes no file of the project."""

import contextlib
import datetime as dt
import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement

from provision.artifacts.pip_config import PipConfig
from provision.artifacts.sources import SourceBuilder
from provision.artifacts.wheel_records import local_records, remote_records
from provision.catalog.digest import catalog_digest
from provision.catalog.snapshot import Channel, Index, Wheel, load_snapshot, names_of
from provision.core import network
from provision.core.errors import SpecError
from provision.core.hashing import sha256_bytes
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.project import Project
from provision.lockfile.pip import WHEELHOUSE, Artifact, render_requirements
from provision.resolver import conda_lock, local_index, pip_tools, sources, uv
from provision.resolver.conflicts import explain_conflict
from provision.resolver.sources import BuiltWheel
from provision.resolver.uv import Pins
from provision.spec.local import input_files, local_digest, local_folder
from provision.spec.model import Target
from provision.spec.requirement_files import read_requirement_files

Served = dict[str, tuple[Wheel, ...]]  # by index

# Assigned with torch in case that a package brings them: they would come from another index.
_COMPANIONS = ("torchvision", "torchaudio", "pytorch-triton-xpu", "triton-xpu")


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves targets."""

    folder: Path
    sources: PipConfig
    run: Run
    progress: Progress
    engine: str = "uv"  # a distribution

    def resolve(
        self, target: Target, known: Iterable[Artifact]
    ) -> tuple[str, str | None]:
        """Return the text of the pip layer, and of the conda layer where the spec has one."""
        if self.engine == "pip-tools":
            pip_tools.require_support(target)
        conda = self._conda(target)  # first: the header of the pip layer has its digest
        return self._pip(target, tuple(known), conda), conda

    def _pip(self, target: Target, known: Sequence[Artifact], conda: str | None) -> str:
        top = header(target, catalog_digest(self.folder, target), conda, self.engine)
        if inputs := input_files(target, self._root, own=True):
            top["inputs"] = ", ".join(inputs)
        if target.pip.local:
            top["local-digest"] = local_digest(target, self._root)
        target, wheels, built = self._with_sources(target)
        self.progress.step(f"{target.name}: resolving")
        with self._serve(target, wheels) as engine:
            pins = self._pins(target, wheels, engine)
            resolved = engine.files(target, pins)
            if target.pip.local:
                top["local"] = ", ".join(engine.local_names(target))
        self._warn(target, pins)
        self.progress.step(f"{target.name}: sizes of files")
        listed = {
            str(wheel.sha256): wheel.size
            for files in wheels.values()
            for wheel in files
        }
        urls = {wheel.sha256: url for wheel, url in resolved}
        known_sizes = {a.sha256: a.size for a in known if a.size} | listed
        artifacts = [
            replace(wheel, index=WHEELHOUSE, source=made.source, build=made.requires)
            if (made := built.get(wheel.name))
            else replace(wheel, index=target.pip.index_of(wheel.name))
            for wheel in self._sized(
                [wheel for wheel, _ in resolved], urls, known_sizes
            )
        ]
        self.progress.step(f"{target.name}: RECORDs of wheels")
        records = {a.sha256: a.record for a in known if a.record}
        records |= {
            str(w.sha256): w.record for ws in wheels.values() for w in ws if w.record
        }
        return render_requirements(top, self._with_records(artifacts, records, urls))

    def _with_records(
        self,
        artifacts: Sequence[Artifact],
        known: dict[str, str],
        urls: Mapping[str, str],
    ) -> list[Artifact]:
        """Add the digests of the RECORDs, from the cheapest source that has each."""
        # `provision update` reads those of a catalog: locking must not need vendors' servers.
        unknown = [a for a in artifacts if a.sha256 not in known]
        known |= local_records(unknown, self.sources.wheelhouses)
        rest = [a for a in unknown if a.sha256 not in known and a.index == "default"]
        known |= remote_records(rest, urls, self.sources.index_url)
        return [
            replace(artifact, record=known.get(artifact.sha256))
            for artifact in artifacts
        ]

    @property
    def _root(self) -> Path:
        return self.folder.parents[1]  # <root>/envs/catalog

    @contextlib.contextmanager
    def _serve(self, target: Target, wheels: Served) -> Iterator[uv.UvResolver]:
        """Yield uv with the indexes of a target."""
        # Resolvers cache pages by their address, which has to differ where the content does.
        built = [str(wheel.sha256) for wheel in wheels.get(WHEELHOUSE, ())]
        digest = sha256_bytes(
            " ".join([catalog_digest(self.folder, target), *built]).encode()
        )
        with local_index.serve(wheels, digest) as indexes:
            yield uv.UvResolver(indexes, self.sources.index_url, self.run)

    def _with_sources(
        self, target: Target
    ) -> tuple[Target, Served, dict[str, BuiltWheel]]:
        """Build what a spec names by URL or in ``[pip] build``."""
        files = read_requirement_files(self._root, target.pip.files)
        for line in files.ignored:
            self.progress.note(
                f"{line}: ignored, as [pip.index] of the spec decides that"
            )
        left = (
            text for text in files.requirements if text not in target.pip.requirements
        )
        if unused := [text for text in left if Requirement(text).specifier]:
            self.progress.note(f"{target.name} decides itself on: {'; '.join(unused)}")
        folders = [local_folder(text, self._root).as_uri() for text in target.pip.local]
        extras = [
            text[text.find("[") :] if "[" in text else "" for text in target.pip.local
        ]
        # As editable ones, whose metadata uv may build although only wheels are allowed.
        local = [
            f"-e {folder}{extra}" for folder, extra in zip(folders, extras, strict=True)
        ]
        target = target.with_pip(local=tuple(local))
        wheels, built = offered(target, self.folder), list[BuiltWheel]()
        if any(Requirement(text).url for text in target.pip.requirements):
            with self._serve(target, wheels) as engine:
                target, built = sources.build_urls(
                    target, engine, self._builder(target, engine)
                )
        if target.pip.build:
            wheels = _before(wheels, built)
            with self._serve(target, wheels) as engine:
                self.progress.step(f"{target.name}: resolving with sdists")
                pins, builder = (
                    self._pins(target, wheels, engine),
                    self._builder(target, engine),
                )
                built += sources.build_sdists(target, pins, engine, builder)
        target = target.with_pip(build=())
        return target, _before(wheels, built), {wheel.name: wheel for wheel in built}

    def _builder(self, target: Target, engine: uv.UvResolver) -> SourceBuilder:
        indexes = {**engine.indexes, "default": self.sources.index_url}
        houses, project = self.sources.wheelhouses, Project(self._root)
        return SourceBuilder(
            project, target.python, indexes, houses, self.run, self.progress
        )

    def _warn(self, target: Target, pins: Pins) -> None:
        for index, names in target.pip.index.items():
            kept = _COMPANIONS if "torch" in names and "torch" in pins else ()
            if idle := [
                name for name in names if name not in pins and name not in kept
            ]:
                self.progress.note(
                    f"{target.name}: [pip.index] assigns {', '.join(idle)} to "
                    f"{index}, and no package needs it"
                )
        days = [target.pip.cutoff, *target.pip.cutoffs.values()]
        if max(days) > dt.datetime.now(dt.UTC).date():
            self.progress.note(
                f"{target.name}: the cut-off {max(days)} is in the future: until "
                "then, what is uploaded can change the lock"
            )

    def _sized(
        self,
        wheels: Sequence[Artifact],
        urls: Mapping[str, str],
        known: Mapping[str, int | None],
    ) -> list[Artifact]:
        """Add the sizes, for a wheel of the catalog what that lists: locking needs no vendor."""
        sizes = {**{w.sha256: w.size for w in wheels}, **known}
        unknown = [
            urls[w.sha256] for w in wheels if w.sha256 not in known and not w.size
        ]
        stated = network.content_lengths(unknown, self.sources.index_url)
        return [
            replace(w, size=stated.get(urls[w.sha256], sizes[w.sha256])) for w in wheels
        ]

    def _pins(self, target: Target, wheels: Served, engine: uv.UvResolver) -> Pins:
        if self.engine == "pip-tools" and not target.pip.build:
            return pip_tools.pins(target, wheels, self.sources.index_url, self.run)
        found = engine.pins(target)
        if isinstance(found, dict):
            return found
        sources.refuse_source_only(target, found, engine)
        indexes = names_of(self.folder, Index)
        catalog = {
            index: load_snapshot(self.folder, index, Index).files for index in indexes
        }
        raise explain_conflict(target, found, engine, catalog, self.progress)

    def newest(
        self, target: Target, names: Sequence[str]
    ) -> dict[str, tuple[str, dt.date]]:
        """Return the newest versions that a target can install, and the days of their upload."""
        with self._serve(target, offered(target, self.folder)) as engine:
            return engine.newest(target, names) if names else {}

    def resolve_with_pip_tools(self, target: Target, locked: Mapping[str, str]) -> Pins:
        """Return what pip-tools resolves to when it is constrained to the locked versions."""
        self.progress.step(f"{target.name}: resolving with pip-tools")
        target, wheels, _ = self._with_sources(target)
        return pip_tools.pins(
            target, wheels, self.sources.index_url, self.run, given=locked
        )

    def _conda(self, target: Target) -> str | None:
        if not target.conda:
            return None
        self.progress.step(f"{target.name}: conda layer")
        channels = {
            c: load_snapshot(self.folder, c, Channel) for c in target.conda.channels
        }
        return conda_lock.resolve(target, channels, self.run)


def offered(target: Target, folder: Path) -> dict[str, tuple[Wheel, ...]]:
    """Return the wheels that each catalog index serves for a target.

    SpecError if one has no usable wheel of an assigned name: the resolver would go on to the
    default index, and take what anybody may have uploaded there under that name.
    """
    found = {}
    for index, names in target.pip.index.items():
        snapshot = load_snapshot(folder, index, Index)
        lists = [_usable(target, index, name, snapshot.of(name)) for name in names]
        found[index] = tuple(wheel for wheels in lists for wheel in wheels)
    return found


def _usable(
    target: Target, index: str, name: str, listed: Sequence[Wheel]
) -> list[Wheel]:
    if wheels := [wheel for wheel in listed if not wheel.lacks]:
        return wheels
    lines = (f"{wheel.filename}: {wheel.lacks}" for wheel in listed)
    raise SpecError(
        f"{target.name}: the catalog of {index} has no usable wheel of {name}",
        evidence="\n".join(lines),
        cause=f"[pip.index] assigns {name} to {index}, and no other index is "
        "used for it",
        remedy="run `provision update` to refresh the catalog, or correct [pip.index]",
    )


def header(
    target: Target, digest: str, conda: str | None, engine: str
) -> dict[str, str]:
    """Return the header of the pip layer."""
    layer = {"conda": sha256_bytes(conda.encode())} if conda else {}
    return {
        "spec": target.digest(),
        "catalog": digest,
        **layer,
        "cutoff": target.pip.cutoff.isoformat(),
        "engine": f"{engine} {importlib.metadata.version(engine)}",
        "platform": target.platform,
        "python": target.python_version,
        "command": f"provision lock {target.name}",
    }


def _before(wheels: Served, built: Sequence[BuiltWheel]) -> Served:
    """Return the wheels of each index, the built ones first: a resolver takes them from there."""
    first = {WHEELHOUSE: tuple(wheel.served() for wheel in built)} if built else {}
    return first | {
        index: found for index, found in wheels.items() if index != WHEELHOUSE
    }
