"""The verb ``export``: a target in the format of another installer."""

import json
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit

from packaging.pylock import is_valid_pylock_path

from provision import __version__
from provision.catalog.simple_index import list_files
from provision.catalog.snapshot import Index, load_snapshot
from provision.core import network
from provision.core.errors import ToolError, UsageError
from provision.core.filesystem import write_atomic
from provision.core.hashing import sha256_file
from provision.core.interruption import in_threads
from provision.core.limits import read_if_any
from provision.core.platforms import PLATFORMS
from provision.core.privacy import redact
from provision.core.project import CURRENT, Project
from provision.installer.install import ArtifactSources
from provision.lockfile import formats
from provision.lockfile.pip import WHEELHOUSE, Artifact, Lock
from provision.spec.model import Target

_LINUX = ("devcontainer", "module", "apptainer")


@dataclass(frozen=True, slots=True)
class Export:
    """A target in another format, or what is made of it: its page, the command of its image."""

    target: str
    format: str  # a key of provision.lockfile.formats.LOST; html, docker
    file: Path | None  # where it was written; None where the text is the result
    text: str  # empty of a page
    lost: tuple[str, ...]  # what the format does not hold of the lock
    notes: tuple[str, ...]  # what its user has to know


def export(
    project: Project,
    target: Target,
    lock: Lock,
    *,
    supply: ArtifactSources,
    kind: str,
    file: Path | None,
) -> Export:
    """Return a target in another format, and write the file; ToolError if a wheel is not listed."""
    if kind == "pylock" and file and not is_valid_pylock_path(file):
        raise UsageError.of("no-pylock-name", name=file.name)
    if kind in _LINUX and not PLATFORMS[target.platform].docker:
        raise UsageError.of(
            "format-of-linux", target=target.name, platform=target.platform
        )
    made = formats.MADE[kind].encode()
    if file and file.is_file() and made not in (read_if_any(file) or b""):
        raise UsageError.of("not-an-export", file=file)
    # Sorted, and only those in use: the same lock gives the same text.
    used = {artifact.index for artifact in lock.artifacts} - {"default", WHEELHOUSE}
    indexes = {name: str(supply.indexes[name]) for name in sorted(used)}
    toolkit = _toolkit()
    if kind == "pylock":
        text = formats.pylock(lock, _addresses(project, lock, supply), indexes)
    else:
        prefix = project.environments(target.name) / CURRENT
        text = formats.render(
            kind,
            target=target,
            lock=lock,
            indexes=indexes,
            toolkit=toolkit,
            prefix=prefix,
        )
    notes = _notes(target, kind, toolkit)
    if file:
        write_atomic(file, text)
    return Export(
        target.name, kind, file, text, formats.lost(target, lock, kind), notes
    )


def _addresses(
    project: Project, lock: Lock, supply: ArtifactSources
) -> dict[Artifact, str]:
    """Return where each wheel can be downloaded: by the catalog, or by asking the default index."""
    listed = {
        (name, wheel.filename): wheel.url
        for name in {artifact.index for artifact in lock.artifacts}
        - {"default", WHEELHOUSE}
        for wheel in load_snapshot(project.catalog, name, Index).files
    }
    listed |= {
        (WHEELHOUSE, path.name): path.relative_to(project.root).as_posix()
        for a in lock.artifacts
        if a.source
        for path in project.wheelhouse.glob(f"*/{a.filename}")
        if sha256_file(path) == a.sha256
    }
    asked = [artifact for artifact in lock.artifacts if artifact.index == "default"]
    with network.session() as session:
        look = partial(list_files, session, supply.indexes["default"])
        pages = in_threads(
            look, [artifact.name for artifact in asked], network.PARALLEL_REQUESTS
        )
        for artifact, packages in zip(asked, pages, strict=True):
            # By hash: a mirror may hold another file under the name.
            for package in packages:
                if package.digests.get("sha256") == artifact.sha256:
                    listed[artifact.index, artifact.filename] = _without_login(
                        package.url
                    )
    found = {
        a: listed[key]
        for a in lock.artifacts
        if (key := (a.index, a.filename)) in listed
    }
    if missing := [a.filename for a in lock.artifacts if a not in found]:
        facts = {"missing": len(missing), "all": len(lock.artifacts)}
        raise ToolError.of("no-address", *missing, **facts)
    return found


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return redact(
        parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    )


def _toolkit(name: str = "provision-torch") -> str:
    """Return the requirement by which another machine gets this toolkit (PEP 610)."""
    try:
        direct = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        direct = {}
    if "vcs_info" in direct:
        return f"{name} @ git+{_without_login(direct['url'])}@{direct['vcs_info']['commit_id']}"
    if str(direct.get("url", "")).startswith("https://"):
        return f"{name} @ {_without_login(direct['url'])}"
    return f"./{name.replace('-', '_')}-{__version__}-py3-none-any.whl"


def _notes(target: Target, kind: str, toolkit: str) -> tuple[str, ...]:
    notes = []
    if kind in {"devcontainer", "ci"} and toolkit.startswith("./"):
        notes.append(f"put the wheel of this toolkit into the repository, as {toolkit}")
    if kind == "ci" and target.accelerator != "cpu":
        notes.append(
            f"the job needs a runner with the labels self-hosted and {target.accelerator}"
        )
    return tuple(notes)
