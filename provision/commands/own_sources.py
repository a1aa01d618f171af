"""What a build takes from the project itself: wheels built from source, and its own packages."""

from dataclasses import replace
from pathlib import Path

from provision.artifacts.sources import SourceBuilder
from provision.artifacts.wheelhouse import damaged_artifacts, find_artifacts
from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.core.process import Run
from provision.core.program import uv_program
from provision.core.progress import Progress
from provision.core.project import Project
from provision.core.temporary import scratch
from provision.installer import uv
from provision.installer.plan import ArtifactSources
from provision.lockfile.pip import Artifact, Lock
from provision.resolver.uv import midnight
from provision.spec.model import Target
from provision.spec.own import metadata_elsewhere
from provision.spec.pyproject import own_package


def with_built_wheels(
    project: Project, lock: Lock, supply: ArtifactSources, run: Run, progress: Progress
) -> ArtifactSources:
    """Build the wheels of a lock from source, unless a wheelhouse has them; return all sources."""
    sources = [artifact for artifact in lock.artifacts if artifact.source]
    files = find_artifacts(sources, supply.wheelhouses)
    damaged = damaged_artifacts(files.items())
    missing = []
    for artifact in sources:
        file = files.get(artifact)
        if file is None or file in damaged:
            missing.append(artifact)
    if not missing:
        return supply
    builder = SourceBuilder(
        project,
        lock.header["python"],
        {"default": supply.indexes.get("default")},
        supply.wheelhouses,
        run,
        progress,
        supply.offline,
    )
    folders = [_build_locked(builder, artifact).parent for artifact in missing]
    return replace(supply, wheelhouses=(*folders, *supply.wheelhouses))


def _build_locked(builder: SourceBuilder, artifact: Artifact) -> Path:
    """Return the wheel of an artifact from source; ToolError if it is not the locked one."""
    kept = builder.folder(artifact.source, artifact.build) / artifact.filename
    if kept.is_file() and sha256_file(kept) != artifact.sha256:
        kept.unlink()
    wheel, _ = builder.wheel(artifact.name, artifact.source, artifact.build)
    digest = sha256_file(wheel)
    if (wheel.name, digest) != (artifact.filename, artifact.sha256):
        locked = f"{artifact.filename} {artifact.sha256}"
        raise ToolError(
            f"the build of {artifact.name} gives another wheel than the locked one",
            evidence=f"built: {wheel.name} {digest}, locked: {locked}",
            cause="its build depends on this machine, or on what it downloads",
            remedy="name the wheelhouse/ of whoever made it with --wheelhouse, or lock again",
        )
    return wheel


def install_local(
    python: Path,
    target: Target,
    root: Path,
    supply: ArtifactSources,
    *,
    run: Run,
    progress: Progress,
) -> None:
    """Install the project's own packages into an environment, without what they require."""
    for text in target.pip.local:
        folder = own_package(text, root)
        if folder is None:
            progress.note(f"{text} is not installed: its package is not here")
            continue
        progress.step(f"installing {text}")
        argv = [
            uv_program(),
            "pip",
            "install",
            "--no-config",
            "--python",
            str(python),
            "--no-deps",
            "--no-sources",
            "--reinstall",
            "--exclude-newer",
            midnight(target.pip.cutoff),  # for the requirements of their builds
        ]
        if text.startswith("-e "):
            argv.append("-e")
        argv.append(str(folder))
        for house in supply.wheelhouses:
            argv += ["--find-links", str(house)]
        if supply.offline:
            argv.append("--offline")
        with scratch() as settings:
            env = uv.index_environment(supply.indexes.get("default"))
            done = run(argv, env=env | metadata_elsewhere(settings))
        done.require(f"could not install the own package {text}")
