"""The verb ``export``: a target in the format of another installer."""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from packaging.pylock import is_valid_pylock_path

from provision.artifacts.wheelhouse import find_artifacts
from provision.catalog.devices import read_devices
from provision.catalog.simple_index import list_files
from provision.catalog.snapshot import Index, load_snapshot
from provision.catalog.variants import read_variants_json, static_list, with_static_list
from provision.commands.own_sources import with_built_wheels
from provision.commands.variants import properties_of_target
from provision.core import network
from provision.core.errors import ToolError, UsageError
from provision.core.interruption import in_threads
from provision.core.output import begins_with, require_replaceable, write_output
from provision.core.privacy import redact
from provision.core.process import run
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.text import plural
from provision.installer.plan import ArtifactSources
from provision.lockfile import formats
from provision.lockfile.pip import WHEELHOUSE, Lock
from provision.spec.model import Target

_PLAIN = re.compile(r"[\w./+-]+")
Format = Literal["pylock", "requirements", "environment", "variants", "html", "docker"]
_OF_VARIANTS = '  "created-by": "provision export'  # how a list of ours begins
Addresses = dict[str, str]  # distribution -> URL, or path from the file's folder


@dataclass(frozen=True, slots=True)
class Export:
    """A target in another format, or what is made of it: its page, the command of its image."""

    target: str
    """Name of the target."""
    format: Format
    """As `--format` names it; `html`: the page of `report`; `docker`: the command of `docker
    --print`.
    """
    file: Path | None
    """Where it was written; null where the text is the result."""
    text: str
    """The text in that format; empty of `html`, whose file has it."""
    left_out: tuple[str, ...]
    """What the format does not hold of the lock."""
    notes: tuple[str, ...] = ()
    """What its user has to know."""


def export(
    project: Project,
    target: Target,
    lock: Lock,
    *,
    supply: ArtifactSources,
    kind: Format,
    file: Path | None,
    progress: Progress,
) -> Export:
    """Return a target in another format, and write the file.

    What is built from source is built where no wheelhouse has it. Raises ToolError if a wheel is
    not listed or cannot be built, UsageError for a file that is not to be written.
    """
    if file:
        _refuse_file(file, kind)
    if kind == "pylock":
        _refuse_variants(target, lock)
    # Sorted, and only those in use: the same lock gives the same text.
    used = {artifact.index for artifact in lock.artifacts} - {"default", WHEELHOUSE}
    indexes = {name: str(supply.indexes[name]) for name in sorted(used)}
    built = _built_addresses(project, lock, supply, file, progress)
    if kind == "pylock":
        addresses = _catalog_addresses(project, lock, indexes) | built
        addresses |= _default_addresses(lock, supply.indexes["default"], progress)
        _require_all(lock, addresses)
        text = formats.pylock(lock, indexes, addresses)
    elif kind == "requirements":
        text = formats.requirements(lock, indexes, built)
    else:
        text = formats.environment(target, lock, indexes, built)
    if file:
        write_output(file, text, formats.SIGNATURES[kind])
    left_out = formats.lost(target, lock, kind)
    notes = _notes(project, built, kind)
    if kind == "requirements" and indexes:
        notes.append(formats.SLOW_INDEX)
    return Export(target.name, kind, file, text, left_out, tuple(notes))


def export_variants(
    project: Project, target: Target, file: Path | None, release: Path | None
) -> Export:
    """Return the properties of wheel variants that a target's machines have, and write the file.

    It says what a machine has and not what is installed, so it needs no lock. With the
    ``variants.json`` of a release, that file with these properties in place of its providers.
    """
    if file:
        require_replaceable(file, begins_with(_OF_VARIANTS))
    properties = properties_of_target(target, read_devices(project.catalog))
    if release:
        document = with_static_list(read_variants_json(release), properties)
    else:
        command = f"provision export {target.name} --format variants"
        document = {"created-by": command, **static_list(properties)}
    text = json.dumps(document, indent=2) + "\n"
    if file:
        write_output(file, text, _OF_VARIANTS)
    notes = []
    families = properties.get("intel", {}).get("family", ())
    if len(families) > 1:
        notes.append(
            f"{', '.join(families)}: a wheel for one of these families counts as fitting; "
            "a spec with one family has the list of that one"
        )
    return Export(target.name, "variants", file, text, (), tuple(notes))


def _refuse_variants(target: Target, lock: Lock) -> None:
    """Refuse what PEP 751 cannot name: its readers take a label for an invalid name of a wheel."""
    labelled = [artifact.filename for artifact in lock.artifacts if artifact.variant]
    if labelled:
        raise UsageError(
            f"{target.name} cannot be exported as pylock: it has wheel variants",
            evidence="\n".join(labelled),
            cause="pylock.toml (PEP 751) has no place for their labels, and its readers refuse them",
            remedy=f"use `provision bundle {target.name}`, or remove them from [pip.variants]",
        )


def _refuse_file(file: Path, kind: Format) -> None:
    if kind == "pylock" and not is_valid_pylock_path(file):
        raise UsageError(
            f"{file.name} is not a name for this format",
            cause="pip and uv know the format by the name: pylock.toml or pylock.<word>.toml",
            remedy="name it pylock.toml",
        )
    require_replaceable(file, begins_with(formats.SIGNATURES[kind]))


def _catalog_addresses(
    project: Project, lock: Lock, indexes: Iterable[str]
) -> Addresses:
    """Return the addresses of the wheels of vendors' indexes."""
    addresses = {}
    for name in indexes:
        wheels = load_snapshot(project.catalog, name, Index).files
        urls = {wheel.filename: wheel.url for wheel in wheels}
        for artifact in lock.artifacts:
            if artifact.index == name and artifact.filename in urls:
                addresses[artifact.name] = urls[artifact.filename]
    return addresses


def _built_addresses(
    project: Project,
    lock: Lock,
    supply: ArtifactSources,
    file: Path | None,
    progress: Progress,
) -> Addresses:
    """Return where the wheels of other sources than an index are, built where need be."""
    built = [artifact for artifact in lock.artifacts if artifact.source]
    if not built:
        return {}
    supply = with_built_wheels(project, lock, supply, run, progress)
    wheels = find_artifacts(built, supply.wheelhouses)
    addresses = {}
    for artifact, wheel in wheels.items():
        url, _, digest = artifact.source.partition(" sha256:")
        if digest == artifact.sha256 and url.startswith("http"):  # is that wheel
            addresses[artifact.name] = _without_login(url)
        else:
            addresses[artifact.name] = _local_address(project, wheel.resolve(), file)
    return addresses


def _local_address(project: Project, wheel: Path, file: Path | None) -> str:
    """Return the path to a wheel from the file's folder, or its URL on this machine."""
    # Only within the project do both move together, such as into a clone.
    if file and wheel.is_relative_to(project.wheelhouse.resolve()):
        folder = file.resolve().parent
        path = Path(os.path.relpath(wheel, folder)).as_posix()
        # A requirements file can quote no blank, comment or variable in a path; a URL can.
        if folder.is_relative_to(project.root.resolve()) and _PLAIN.fullmatch(path):
            return path
    return wheel.as_uri()


def _notes(project: Project, built: Addresses, kind: Format) -> list[str]:
    """Return which wheels a reader of the file needs, and how to get them."""
    here, beside = [], []
    for name, address in built.items():
        if address.startswith("file:"):
            here.append(name)
        elif "://" not in address:
            beside.append(name)
    notes = []
    if beside:
        note = (
            f"the wheels of {', '.join(beside)}, built from source, are in the "
            "project's wheelhouse/, which the file refers to: commit both"
        )
        if kind != "pylock":
            note += "; the installer has to run in its folder"
        notes.append(note)
    if here:
        notes.append(
            f"the wheels of {', '.join(here)}, built from source, have paths of this "
            f"machine; with `-o` and a file in {project.root} the paths are relative, "
            "and work in each copy of the project"
        )
    return notes


def _default_addresses(lock: Lock, index: str | None, progress: Progress) -> Addresses:
    """Ask the default index where its wheels can be downloaded."""
    hashes = {}
    for artifact in lock.artifacts:
        if artifact.index == "default":
            hashes[artifact.name] = artifact.sha256
    where = redact(index) if index else "the default index"
    wheels = plural(len(hashes), "wheel")
    progress.step(f"asking {where} for the addresses of {wheels}")
    with network.session() as session:
        list_names = partial(list_files, session, index)
        pages = in_threads(list_names, hashes, network.PARALLEL_REQUESTS)
    progress.step("")
    addresses = {}
    for name, packages in zip(hashes, pages, strict=True):
        # By hash: a mirror may hold another file under the name.
        for package in packages:
            if package.digests.get("sha256") == hashes[name]:
                addresses[name] = _without_login(package.url)
    return addresses


def _require_all(lock: Lock, addresses: Addresses) -> None:
    missing = []
    for artifact in lock.artifacts:
        if artifact.name not in addresses:
            missing.append(artifact.filename)
    if missing:
        raise ToolError(
            f"no address is known for {len(missing)} of {len(lock.artifacts)} wheels",
            evidence="\n".join(missing),
            cause="the index no longer lists them, or lists no sha256",
            remedy="lock again, or use `--format requirements`, which needs no address",
        )


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return redact(parts._replace(netloc=host, fragment="").geturl())
