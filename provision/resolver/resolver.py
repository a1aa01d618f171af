"""Resolve a spec with the catalog to the text of a lock; writes no file of the project."""

import contextlib
import datetime as dt
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from provision.artifacts.pip_config import PipConfig
from provision.artifacts.sources import SourceBuilder
from provision.artifacts.wheel_records import local_records, remote_records
from provision.catalog.digest import catalog_digest
from provision.catalog.releases import taken_variant
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
from provision.resolver.sources import BuiltWheel, served_wheel
from provision.resolver.uv import Pins
from provision.spec.local import input_digests, local_digest
from provision.spec.model import Target
from provision.spec.own import require_own_packages
from provision.spec.places import read_places
from provision.spec.pyproject import local_folder

Served = dict[str, tuple[Wheel, ...]]  # by index

_LOCAL = "local files"  # in place of the default index
# Assigned with torch in case that a package requires them: they would come from another index.
_COMPANIONS = ("torchvision", "torchaudio", "pytorch-triton-xpu", "triton-xpu")


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves targets."""

    folder: Path  # <root>/envs/catalog
    sources: PipConfig
    run: Run
    progress: Progress
    engine: str = "uv"  # a distribution
    # The only files there are without a network; None with one.
    local: tuple[Wheel, ...] | None = None

    def resolve(
        self, target: Target, known: Sequence[Artifact]
    ) -> tuple[str, str | None]:
        """Return the text of the pip layer, and of the conda layer where the spec has one.

        Sizes and RECORDs of ``known``, the artifacts of the old lock, are not looked up again.
        """
        if self.engine == "pip-tools":
            pip_tools.require_support(target)
        conda = self._conda(target)
        top = self._header(target, conda)  # which has the digest of the conda layer
        resolvable, wheels, built = self._with_sources(target)
        self.progress.step(f"{target.name}: resolving")
        with self._serve(target, wheels) as engine:
            pins = self._pins(target, resolvable, wheels, engine)
            resolved, urls = engine.files(resolvable, pins)
            if target.pip.local:
                top["local"] = ", ".join(engine.local_names(resolvable))
            self._note_excluded(resolvable, pins, engine)
        self._warn(target, pins)
        listed = list(chain.from_iterable(wheels.values()))
        artifacts = _artifacts(target, resolved, listed, built)
        self.progress.step(f"{target.name}: sizes of files")
        artifacts = self._with_sizes(artifacts, urls, known, listed)
        self.progress.step(f"{target.name}: RECORDs of wheels")
        artifacts = self._with_records(artifacts, urls, known, listed)
        return render_requirements(top, artifacts), conda

    def _conda(self, target: Target) -> str | None:
        if not target.conda:
            return None
        self.progress.step(f"{target.name}: conda layer")
        channels = {}
        for name in target.conda.channels:
            channels[name] = load_snapshot(self.folder, name, Channel)
        return conda_lock.resolve(target, channels, self.run)

    def _header(self, target: Target, conda: str | None) -> dict[str, str]:
        top = header(target, catalog_digest(self.folder, target), conda, self.engine)
        inputs = input_digests(target, self._root)
        if inputs:
            digests = [f"{path} {digest}" for path, digest in inputs.items()]
            top["inputs"] = ", ".join(digests)
        if target.pip.local:
            top["local-digest"] = local_digest(target, self._root)
        return top

    def _with_sources(
        self, target: Target
    ) -> tuple[Target, Served, dict[str, BuiltWheel]]:
        """Build what a spec names by URL or in ``[pip] build``, so that all is in an index."""
        for note in target.inputs.notes:
            self.progress.note(note)
        require_own_packages(target, self._root)
        asked = target
        target = _with_editable(target, self._root)
        catalog = offered(target, self.folder)
        built: list[BuiltWheel] = []
        if any(Requirement(text).url for text in target.pip.requirements):
            with self._serve(target, catalog) as engine:
                builder = self._builder(target, engine)
                target, built = sources.build_urls(target, engine, builder)
        if target.pip.build:
            wheels = _with_built(catalog, built)
            with self._serve(target, wheels) as engine:
                self.progress.step(f"{target.name}: resolving with sdists")
                pins = self._pins(asked, target, wheels, engine)
                builder = self._builder(target, engine)
                built += sources.build_sdists(target, pins, engine, builder)
        by_name = {wheel.name: wheel for wheel in built}
        return target.with_pip(build=()), _with_built(catalog, built), by_name

    def _note_excluded(self, target: Target, pins: Pins, engine: uv.UvResolver) -> None:
        """Say what a target excludes, and what requires it."""
        for name, places in target.inputs.left_out.items():
            if places:
                who = f"{' and '.join(places)} requires it"
            elif engine.is_asked_for(target, name, pins):
                who = "packages require it"
            else:
                who = "nothing requires it any more"
            self.progress.note(f"{target.name}: [pip] exclude leaves out {name}: {who}")

    @property
    def _root(self) -> Path:
        return self.folder.parents[1]

    @contextlib.contextmanager
    def _serve(self, target: Target, wheels: Served) -> Iterator[uv.UvResolver]:
        """Yield uv with the indexes of a target."""
        if self.local is not None:
            wheels = _only_local(target, wheels, self.local)
        # Resolvers cache pages by their address, which has to differ where the content does.
        content = [catalog_digest(self.folder, target)]
        for index in (WHEELHOUSE, _LOCAL):
            content += [str(wheel.sha256) for wheel in wheels.get(index, ())]
        content += chain.from_iterable(target.pip.variants.items())
        text = " ".join(content)
        digest = sha256_bytes(text.encode())
        with local_index.serve(wheels, digest) as indexes:
            run = local_index.with_names(self.run, indexes)
            default = indexes.pop(_LOCAL, self.sources.index_url)
            yield uv.UvResolver(indexes, default, run)

    def _builder(self, target: Target, engine: uv.UvResolver) -> SourceBuilder:
        return SourceBuilder(
            Project(self._root),
            target.python,
            {**engine.indexes, "default": self.sources.index_url},
            self.sources.wheelhouses,
            engine.run,
            self.progress,
        )

    def _pins(
        self, asked: Target, target: Target, wheels: Served, engine: uv.UvResolver
    ) -> Pins:
        """Resolve a target, as it is asked for and as the resolver gets it."""
        if self.engine == "pip-tools" and not target.pip.build:
            index = self.sources.index_url
            return pip_tools.pins(target, wheels, index, self.run)
        pins = engine.pins(target)
        if isinstance(pins, dict):
            return pins
        catalog = {}
        for index in names_of(self.folder, Index):
            catalog[index] = load_snapshot(self.folder, index, Index).files
        places = read_places(asked, self._root)
        raise explain_conflict(
            target, pins, engine, catalog, places=places, progress=self.progress
        )

    def _warn(self, target: Target, pins: Pins) -> None:
        for index, names in target.pip.index.items():
            expected = {*pins, *target.pip.exclude}
            if "torch" in names and "torch" in pins:
                expected.update(_COMPANIONS)
            unused = [name for name in names if name not in expected]
            if unused:
                self.progress.note(
                    f"{target.name}: [pip.index] assigns {', '.join(unused)} to "
                    f"{index}, and no package needs it"
                )
        latest = max([target.pip.cutoff, *target.pip.cutoffs.values()])
        today = dt.datetime.now(dt.UTC).date()
        if latest > today:
            self.progress.note(
                f"{target.name}: the cut-off {latest} is in the future: until "
                "then, what is uploaded can change the lock"
            )

    def _with_sizes(
        self,
        artifacts: Sequence[Artifact],
        urls: Mapping[str, str],
        known: Sequence[Artifact],
        listed: Sequence[Wheel],
    ) -> list[Artifact]:
        """Add the sizes that no page of an index states."""
        sizes: dict[str, int | None] = {}
        for artifact in (*artifacts, *known):
            if artifact.size:
                sizes[artifact.sha256] = artifact.size
        # Of a wheel of the catalog what that lists, even nothing: locking needs no vendor.
        for wheel in listed:
            sizes[str(wheel.sha256)] = wheel.size
        unknown = [a.sha256 for a in artifacts if a.sha256 not in sizes]
        addresses = [urls[digest] for digest in unknown]
        lengths = network.content_lengths(addresses, self.sources.index_url)
        for digest in unknown:
            sizes[digest] = lengths[urls[digest]]
        return [replace(a, size=sizes[a.sha256]) for a in artifacts]

    def _with_records(
        self,
        artifacts: Sequence[Artifact],
        urls: Mapping[str, str],
        known: Sequence[Artifact],
        listed: Sequence[Wheel],
    ) -> list[Artifact]:
        """Add the digests of the RECORDs, from the cheapest source that has each."""
        records = {}
        recorded: list[Artifact | Wheel] = [*known, *listed]
        for wheel in recorded:
            if wheel.record:
                records[str(wheel.sha256)] = wheel.record
        unknown = [a for a in artifacts if a.sha256 not in records]
        records |= local_records(unknown, self.sources.wheelhouses)
        # `provision update` reads those of a catalog: locking must not need vendors' servers.
        remote = []
        for artifact in unknown:
            if artifact.index == "default" and artifact.sha256 not in records:
                remote.append(artifact)
        records |= remote_records(remote, urls, self.sources.index_url)
        return [replace(a, record=records.get(a.sha256)) for a in artifacts]

    def newest(
        self, target: Target, names: Sequence[str]
    ) -> dict[str, tuple[str, dt.date]]:
        """Return the newest versions that a target can install, and the days of their upload."""
        with self._serve(target, offered(target, self.folder)) as engine:
            return engine.newest(target, names) if names else {}

    def releases(
        self, target: Target, name: str, newest: str, oldest: str
    ) -> list[str]:
        """Return the versions of a distribution that a target can install, the newest first."""
        self.progress.step(f"{target.name}: releases of {name}")
        with self._serve(target, offered(target, self.folder)) as engine:
            return engine.releases(target, name, newest, oldest)

    def resolve_with_pip_tools(self, target: Target, locked: Mapping[str, str]) -> Pins:
        """Return what pip-tools resolves to when it is constrained to the locked versions."""
        self.progress.step(f"{target.name}: resolving with pip-tools")
        target, wheels, _ = self._with_sources(target)
        index = self.sources.index_url
        return pip_tools.pins(target, wheels, index, self.run, given=locked)


def _with_editable(target: Target, root: Path) -> Target:
    """Return a target with the folders of its own packages as the resolver gets them."""
    local = []
    for text in target.pip.local:
        folder = local_folder(text, root).as_uri()
        _, bracket, extras = text.partition("[")
        # As an editable one, whose metadata uv may build although only wheels are allowed.
        local.append(f"-e {folder}{bracket}{extras}")
    return target.with_pip(local=tuple(local))


def _only_local(target: Target, wheels: Served, local: Sequence[Wheel]) -> Served:
    """Return the wheels of each index that are among local ones, which are the default index."""
    here = {(wheel.filename, wheel.sha256) for wheel in local}
    served: Served = {}
    for index, wheels_of_index in wheels.items():
        kept = []
        for wheel in wheels_of_index:
            if index == WHEELHOUSE or (wheel.filename, wheel.sha256) in here:
                kept.append(wheel)
        served[index] = tuple(kept)
    # What is assigned to a catalog comes from it alone, as with a network.
    others = []
    for wheel in local:
        if target.pip.index_of(wheel.name) == "default":
            others.append(wheel)
    served[_LOCAL] = tuple(others)
    return served


def offered(target: Target, folder: Path) -> Served:
    """Return the wheels that each catalog index serves for a target.

    SpecError if one has no usable wheel of an assigned name: the resolver would go on to the
    default index, and take what anybody may have uploaded there under that name.
    """
    served = {}
    for index, names in target.pip.index.items():
        snapshot = load_snapshot(folder, index, Index)
        wheels = []
        for name in names:
            if name not in target.pip.exclude:
                usable = _usable(target, index, name, snapshot.of(name))
                wheels += _of_variant(target, index, name, usable)
        served[index] = tuple(wheels)
    return served


def _of_variant(
    target: Target, index: str, name: str, wheels: Sequence[Wheel]
) -> list[Wheel]:
    """Return the wheels of the variant that a spec takes; by default those that are no variants.

    An index's ``variants.json`` is not asked: it can change any day, and with it a lock.
    """
    labels = {wheel.variant for wheel in wheels}
    label = taken_variant(name, labels, target)
    if label in labels:
        return [wheel for wheel in wheels if wheel.variant == label]
    offered = ", ".join(sorted(labels - {""}))
    spec = f"envs/{target.name}.toml"
    cause = "all its wheels are for some machines only, and the spec takes none of them"
    if name in target.pip.variants:
        cause = f"{spec}, [pip.variants]: {name}"
    remedy = f"remove {name} from [pip.variants] of {spec}"
    if offered:
        remedy = (
            f'write `{name} = "LABEL"` with one of them into [pip.variants] of {spec}'
        )
    raise SpecError(
        f"{target.name}: {index} has no variant {label} of {name}",
        evidence=f"variants in the catalog of {index}: {offered or 'none'}",
        cause=cause,
        remedy=remedy,
    )


def _usable(
    target: Target, index: str, name: str, listed: Sequence[Wheel]
) -> list[Wheel]:
    wheels = [wheel for wheel in listed if not wheel.lacks]
    if wheels:
        return wheels
    lines = [f"{wheel.filename}: {wheel.lacks}" for wheel in listed]
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
    top = {"spec": target.digest(), "catalog": digest}
    if conda:
        top["conda"] = sha256_bytes(conda.encode())
    return top | {
        "cutoff": target.pip.cutoff.isoformat(),
        "engine": f"{engine} {importlib.metadata.version(engine)}",
        "platform": target.platform,
        "python": target.python_version,
        "command": f"provision lock {target.name}",
    }


def _artifacts(
    target: Target,
    resolved: Sequence[Artifact],
    listed: Sequence[Wheel],
    built: Mapping[str, BuiltWheel],
) -> list[Artifact]:
    """Return resolved wheels as a lock has them: with their own names, indexes and sources."""
    # The local index serves variants without their labels. Wheels of one content have a name each.
    filenames = {}
    for wheel in listed:
        filenames[wheel.served_name, wheel.sha256] = wheel.filename
    artifacts = []
    for artifact in resolved:
        key = artifact.filename, artifact.sha256
        facts: dict[str, Any] = {"filename": filenames.get(key, artifact.filename)}
        if made := built.get(artifact.name):
            facts["index"] = WHEELHOUSE
            facts["source"] = made.source
            facts["build"] = made.requires
        else:
            facts["index"] = target.pip.index_of(artifact.name)
        artifacts.append(replace(artifact, **facts))
    return artifacts


def _with_built(wheels: Served, built: Sequence[BuiltWheel]) -> Served:
    """Return the wheels of each index, the built ones first: a resolver takes them from there."""
    if not built:
        return wheels
    served = [served_wheel(wheel.path) for wheel in built]
    return {WHEELHOUSE: tuple(served), **wheels}
