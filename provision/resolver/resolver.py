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
from provision.resolver.sources import BuiltWheel
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
    local: tuple[Wheel, ...] | None = (
        None  # without a network: the only files there are
    )

    def resolve(
        self, target: Target, known: Iterable[Artifact]
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
            files = engine.files(resolvable, pins)
            if target.pip.local:
                top["local"] = ", ".join(engine.local_names(resolvable))
            self._note_excluded(resolvable, pins, engine)
        self._warn(target, pins)
        urls = {wheel.sha256: url for wheel, url in files}
        listed = [wheel for index in wheels.values() for wheel in index]
        # The local index serves variants without their labels. Wheels of one content have a name each.
        names = {
            (local_index.served_name(wheel), wheel.sha256): wheel.filename
            for wheel in listed
        }
        artifacts = []
        for wheel, _ in files:
            name = names.get((wheel.filename, wheel.sha256), wheel.filename)
            artifacts.append(_artifact(target, replace(wheel, filename=name), built))
        known = list(known)
        artifacts = self._with_sizes(target, artifacts, urls, known, listed)
        artifacts = self._with_records(target, artifacts, urls, known, listed)
        return render_requirements(top, artifacts), conda

    def _conda(self, target: Target) -> str | None:
        if not target.conda:
            return None
        self.progress.step(f"{target.name}: conda layer")
        channels = {
            name: load_snapshot(self.folder, name, Channel)
            for name in target.conda.channels
        }
        return conda_lock.resolve(target, channels, self.run)

    def _header(self, target: Target, conda: str | None) -> dict[str, str]:
        top = header(target, catalog_digest(self.folder, target), conda, self.engine)
        if inputs := input_digests(target, self._root):
            top["inputs"] = ", ".join(f"{p} {digest}" for p, digest in inputs.items())
        if target.pip.local:
            top["local-digest"] = local_digest(target, self._root)
        return top

    def _with_sources(
        self, target: Target
    ) -> tuple[Target, Served, dict[str, BuiltWheel]]:
        """Build what a spec names by URL or in ``[pip] build``, so that all is in an index."""
        self._note_files(target)
        require_own_packages(target, self._root)
        local = []
        for text in target.pip.local:
            folder = local_folder(text, self._root).as_uri()
            _, bracket, extras = text.partition("[")
            # As an editable one, whose metadata uv may build although only wheels are allowed.
            local.append(f"-e {folder}{bracket}{extras}")
        asked, target = target, target.with_pip(local=tuple(local))
        wheels, built = offered(target, self.folder), list[BuiltWheel]()
        if any(Requirement(text).url for text in target.pip.requirements):
            with self._serve(target, wheels) as engine:
                builder = self._builder(target, engine)
                target, built = sources.build_urls(target, engine, builder)
        if target.pip.build:
            wheels = _with_built(wheels, built)
            with self._serve(target, wheels) as engine:
                self.progress.step(f"{target.name}: resolving with sdists")
                pins = self._pins(asked, target, wheels, engine)
                builder = self._builder(target, engine)
                built += sources.build_sdists(target, pins, engine, builder)
        by_name = {wheel.name: wheel for wheel in built}
        return target.with_pip(build=()), _with_built(wheels, built), by_name

    def _note_files(self, target: Target) -> None:
        for note in target.inputs.notes:
            self.progress.note(note)

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
        # Resolvers cache pages by their address, which has to differ where the content does.
        if self.local is not None:
            wheels = _only_local(target, wheels, self.local)
        varying = (WHEELHOUSE, _LOCAL)
        built = [str(wheel.sha256) for n in varying for wheel in wheels.get(n, ())]
        labels = [f"{name} {label}" for name, label in target.pip.variants.items()]
        content = " ".join([catalog_digest(self.folder, target), *built, *labels])
        with local_index.serve(wheels, sha256_bytes(content.encode())) as indexes:
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
            return pip_tools.pins(target, wheels, self.sources.index_url, self.run)
        pins = engine.pins(target)
        if isinstance(pins, dict):
            return pins
        catalog = {
            index: load_snapshot(self.folder, index, Index).files
            for index in names_of(self.folder, Index)
        }
        places = read_places(asked, self._root)
        raise explain_conflict(
            target, pins, engine, catalog, places=places, progress=self.progress
        )

    def _warn(self, target: Target, pins: Pins) -> None:
        for index, names in target.pip.index.items():
            without = {*pins, *target.pip.exclude}
            unused = [name for name in names if name not in without]
            if "torch" in names and "torch" in pins:
                unused = [name for name in unused if name not in _COMPANIONS]
            if unused:
                self.progress.note(
                    f"{target.name}: [pip.index] assigns {', '.join(unused)} to "
                    f"{index}, and no package needs it"
                )
        latest = max([target.pip.cutoff, *target.pip.cutoffs.values()])
        if latest > dt.datetime.now(dt.UTC).date():
            self.progress.note(
                f"{target.name}: the cut-off {latest} is in the future: until "
                "then, what is uploaded can change the lock"
            )

    def _with_sizes(
        self,
        target: Target,
        artifacts: list[Artifact],
        urls: Mapping[str, str],
        known: Sequence[Artifact],
        listed: Sequence[Wheel],
    ) -> list[Artifact]:
        """Add the sizes that no page of an index states."""
        self.progress.step(f"{target.name}: sizes of files")
        sizes: dict[str, int | None] = {a.sha256: a.size for a in known if a.size}
        # Of a wheel of the catalog what that lists, even nothing: locking needs no vendor.
        sizes |= {str(wheel.sha256): wheel.size for wheel in listed}
        sized = [replace(a, size=sizes.get(a.sha256, a.size)) for a in artifacts]
        unknown = [
            urls[a.sha256] for a in sized if not a.size and a.sha256 not in sizes
        ]
        stated = network.content_lengths(unknown, self.sources.index_url)
        return [replace(a, size=stated.get(urls[a.sha256], a.size)) for a in sized]

    def _with_records(
        self,
        target: Target,
        artifacts: list[Artifact],
        urls: Mapping[str, str],
        known: Sequence[Artifact],
        listed: Sequence[Wheel],
    ) -> list[Artifact]:
        """Add the digests of the RECORDs, from the cheapest source that has each."""
        self.progress.step(f"{target.name}: RECORDs of wheels")
        records = {a.sha256: a.record for a in known if a.record}
        records |= {str(wheel.sha256): wheel.record for wheel in listed if wheel.record}
        unknown = [a for a in artifacts if a.sha256 not in records]
        records |= local_records(unknown, self.sources.wheelhouses)
        # `provision update` reads those of a catalog: locking must not need vendors' servers.
        unknown = [a for a in unknown if a.sha256 not in records]
        unknown = [a for a in unknown if a.index == "default"]
        records |= remote_records(unknown, urls, self.sources.index_url)
        return [replace(a, record=records.get(a.sha256)) for a in artifacts]

    def newest(
        self, target: Target, names: Sequence[str]
    ) -> dict[str, tuple[str, dt.date]]:
        """Return the newest versions that a target can install, and the days of their upload."""
        with self._serve(target, offered(target, self.folder)) as engine:
            return engine.newest(target, names) if names else {}

    def releases(
        self, target: Target, name: str, newest: str, oldest: str = ""
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


def _only_local(target: Target, wheels: Served, local: Sequence[Wheel]) -> Served:
    """Return the wheels of each index that are among local ones, which are the default index."""
    here = {(wheel.filename, wheel.sha256) for wheel in local}
    served = {
        index: tuple(w for w in files if (w.filename, w.sha256) in here)
        for index, files in wheels.items()
        if index != WHEELHOUSE
    }
    # What is assigned to a catalog comes from it alone, as with a network.
    others = (w for w in local if target.pip.index_of(w.name) == "default")
    built = {WHEELHOUSE: wheels[WHEELHOUSE]} if WHEELHOUSE in wheels else {}
    return built | served | {_LOCAL: tuple(others)}


def offered(target: Target, folder: Path) -> Served:
    """Return the wheels that each catalog index serves for a target.

    SpecError if one has no usable wheel of an assigned name: the resolver would go on to the
    default index, and take what anybody may have uploaded there under that name.
    """
    served = {}
    for index, names in target.pip.index.items():
        snapshot = load_snapshot(folder, index, Index)
        wheels: list[Wheel] = []
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
    raise SpecError(
        f"{target.name}: {index} has no variant {label} of {name}",
        evidence=f"variants in the catalog of {index}: {offered or 'none'}",
        cause=f"{spec}, [pip.variants]: {name}"
        if name in target.pip.variants
        else "all its wheels are for some machines only, and the spec takes none of them",
        remedy=f'write `{name} = "LABEL"` with one of them into [pip.variants] of {spec}'
        if offered
        else f"remove {name} from [pip.variants] of {spec}",
    )


def _usable(
    target: Target, index: str, name: str, listed: Sequence[Wheel]
) -> list[Wheel]:
    if wheels := [wheel for wheel in listed if not wheel.lacks]:
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


def _artifact(
    target: Target, wheel: Artifact, built: Mapping[str, BuiltWheel]
) -> Artifact:
    made = built.get(wheel.name)
    if made is None:
        return replace(wheel, index=target.pip.index_of(wheel.name))
    return replace(wheel, index=WHEELHOUSE, source=made.source, build=made.requires)


def _with_built(wheels: Served, built: Sequence[BuiltWheel]) -> Served:
    """Return the wheels of each index, the built ones first: a resolver takes them from there."""
    others = {index: files for index, files in wheels.items() if index != WHEELHOUSE}
    if not built:
        return others
    return {WHEELHOUSE: tuple(wheel.served() for wheel in built)} | others
