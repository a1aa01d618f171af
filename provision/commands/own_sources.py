"""What a build takes from the project itself: wheels built from source, and its own packages."""

from dataclasses import replace
from pathlib import Path

from provision.artifacts.wheelhouse import damaged_artifacts, find_artifacts
from provision.commands.build import BuildRequest
from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.core.process import Run
from provision.core.program import uv_program
from provision.core.progress import Progress
from provision.core.project import Project
from provision.installer import uv
from provision.installer.install import ArtifactSources
from provision.lockfile.pip import Lock


def with_built_wheels(
    project: Project, lock: Lock, supply: ArtifactSources, run: Run, progress: Progress
) -> ArtifactSources:
    """Build the wheels of a lock from source, unless a wheelhouse has them; return all sources."""
    wanted = [artifact for artifact in lock.artifacts if artifact.source]
    found = find_artifacts(wanted, supply.wheelhouses)
    damaged = damaged_artifacts(found.items())
    rest = [each for each in wanted if each not in found or found[each] in damaged]
    if not rest:
        return supply
    from provision.artifacts.sources import SourceBuilder  # noqa: PLC0415 - few locks need it

    default = {"default": supply.indexes.get("default")}
    builder = SourceBuilder(
        project,
        lock.header["python"],
        default,
        supply.wheelhouses,
        run,
        progress,
        supply.offline,
    )
    folders = []
    for each in rest:
        kept = builder.folder(each.source, each.build) / each.filename
        if kept.is_file() and sha256_file(kept) != each.sha256:
            kept.unlink()
        made, _ = builder.wheel(each.name, each.source, each.build)
        digest = sha256_file(made)
        if (made.name, digest) != (each.filename, each.sha256):
            evidence = (
                f"built: {made.name} {digest}, locked: {each.filename} {each.sha256}"
            )
            raise ToolError.of("other-build", evidence, name=each.name)
        folders.append(made.parent)
    return replace(supply, wheelhouses=(*folders, *supply.wheelhouses))


def install_local(
    python: Path, request: BuildRequest, run: Run, progress: Progress
) -> None:
    """Install the project's own packages into an environment, without what they require."""
    from provision.resolver.uv import midnight  # noqa: PLC0415
    from provision.spec.local import local_folder  # noqa: PLC0415

    for text in request.target.pip.local:
        folder = local_folder(text, request.project.root)
        if not folder.is_dir():  # in an image or a bundle
            progress.note(f"{text} is not installed: {folder} is not here")
            continue
        progress.step(f"installing {text}")
        editable = ["-e"] if text.startswith("-e ") else []
        cutoff = midnight(
            request.target.pip.cutoff
        )  # for the requirements of their builds
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
            cutoff,
            *editable,
            str(folder),
        ]
        for house in request.supply.wheelhouses:
            argv += ["--find-links", str(house)]
        if request.supply.offline:
            argv.append("--offline")
        env = uv.index_environment(request.supply.indexes.get("default"))
        run(argv, env=env).require(f"could not install the own package {text}")
