"""Build the image of a target with Docker, from nothing but its spec and lock.

The last stage of ``docker/Dockerfile`` only copies, so the files of a layer are the same every time.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.hashing import sha256_file
from provision.core.locking import folder_lock, waiting
from provision.core.output import require_replaceable
from provision.core.platforms import PLATFORMS
from provision.core.process import Run, clean_environment
from provision.core.progress import Progress
from provision.core.temporary import scratch
from provision.core.variables import PROXIES
from provision.image.base import find_base
from provision.image.context import SBOM, prepare_context
from provision.image.oci import is_layout, write_layout
from provision.image.request import ImageRequest, added_layers

_VERSIONS = "{{.Client.Version}} {{.Server.Version}}"


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """A built image."""

    target: str
    """Name of the target."""
    tag: str
    """Name and tag of the image."""
    id: str
    """Id of the image in the engine."""
    size: int
    """Size of all layers, in bytes."""
    seconds: float
    """Duration of the build in the engine."""
    sbom: Path
    """Its software bill of materials (CycloneDX)."""
    layout: Path | None = None
    """The OCI layout, where one was requested."""
    digest: str | None = None
    """Digest of the image in the layout, which `skopeo inspect oci-archive:FILE` prints."""
    sha256: str | None = None
    """SHA-256 of the layout's file, which `sha256sum FILE` prints."""


def build_image(
    request: ImageRequest, run: Run, progress: Progress, *, layout: Path | None = None
) -> BuiltImage:
    """Build the image of a target, and write it as an OCI layout where one is requested."""
    if layout:
        require_replaceable(layout, is_layout)
    engine = find_engine(run)
    with context_lock(request, progress):  # until the engine has read the context
        prepare_context(request, run, progress)
        progress.step(f"building {request.tag}")
        progress.step("")  # the engine shows its own
        argv = build_argv(request, engine, os.environ)
        built = run(argv, env=_environment(), errors=2 if os.isatty(2) else None)
    built.require(
        f"could not build the image of {request.target.name}",
        remedy="the output above has the error; `--print` shows the command, to run it by hand",
    )
    image, size = _inspect(engine, request.tag, run)
    digest = _export(engine, request, layout, run, progress) if layout else None
    return BuiltImage(
        request.target.name,
        request.tag,
        image,
        size,
        round(built.seconds, 1),
        request.context / "root" / SBOM,
        layout,
        digest,
        sha256_file(layout) if layout else None,
    )


def context_lock(
    request: ImageRequest, progress: Progress
) -> contextlib.AbstractContextManager[int]:
    """Return the lock of the folder of a build context, which each preparation makes anew."""
    folder = request.context
    on_wait = waiting(f"an image of {request.target.name}", progress)
    return folder_lock(folder.parent, on_wait, name=f"{folder.name}.lock")


def find_engine(run: Run) -> str:
    """Return the first ``docker`` on PATH that builds with BuildKit and whose engine answers."""
    # A client before 23 has BuildKit built in; a later one needs its plugin buildx. The first of
    # several clients often has no plugin or no permission on the engine.
    errors = []
    for folder in clean_environment()["PATH"].split(os.pathsep):
        program = shutil.which("docker", path=folder)
        if program is None:
            continue
        version = run([program, "version", "--format", _VERSIONS], env=_environment())
        client = version.stdout.partition(" ")[0]
        if version.returncode:
            errors.append(f"{program}: {version.stderr.strip()}")
        elif _has_buildkit(program, client, run):
            return program
        else:
            errors.append(f"{program}: client {client} without its plugin buildx")
    raise ToolError(
        "there is no Docker engine that can build",
        evidence="\n".join(errors) or "no `docker` on PATH",
        remedy="install Docker with buildx, start its engine, and check "
        "your permission to use it",
    )


def _has_buildkit(program: str, client: str, run: Run) -> bool:
    major = client.partition(".")[0]
    if major.isdigit() and int(major) < 23:
        return True
    return run([program, "buildx", "version"], env=_environment()).returncode == 0


def _environment() -> dict[str, str]:
    """Return the environment of the client: its own settings and the mirror pass on purpose."""
    prefixes = ("DOCKER_", "PIP_")
    own = {key: os.environ[key] for key in os.environ if key.startswith(prefixes)}
    return clean_environment(extra=own | {"DOCKER_BUILDKIT": "1"})


def build_argv(request: ImageRequest, engine: str, env: Mapping[str, str]) -> list[str]:
    """Return the command that builds an image in its prepared context."""
    # The URL of a mirror, which may contain a password, and a private certificate authority are
    # secrets: build arguments would stay in the history of the image.
    target = request.target
    offline = request.supply.offline
    argv = [engine, "build", "--platform", PLATFORMS[target.platform].docker]
    argv += ["--tag", request.tag, "--tag", f"{request.name}:latest"]
    arguments = [
        f"TARGET={target.name}",
        f"PYTHON={target.python}",
        f"SOURCE_DATE_EPOCH={request.epoch}",
        f"BASE_IMAGE={find_base(request).image}",
    ]
    if offline:  # not even a proxy: what is missing must fail, not be downloaded
        arguments.append("OPTIONS=--offline")
        argv += ["--network", "none"]
    else:
        arguments += [name for name in PROXIES if env.get(name)]
        if bundle := clean_environment(env).get("SSL_CERT_FILE"):
            argv += ["--secret", f"id=ca,src={bundle}"]
        if env.get("PIP_INDEX_URL"):
            argv += ["--secret", "id=index,env=PIP_INDEX_URL"]
    for argument in arguments:
        argv += ["--build-arg", argument]
    return [*argv, str(request.context)]


def _inspect(engine: str, tag: str, run: Run) -> tuple[str, int]:
    argv = [engine, "image", "inspect", "--format", "{{.Id}} {{.Size}}", tag]
    done = run(argv, env=_environment())
    done.require(f"could not inspect {tag}")
    identifier, size = done.stdout.split()
    return identifier, int(size)


def _export(
    engine: str, request: ImageRequest, layout: Path, run: Run, progress: Progress
) -> str:
    progress.step(f"writing {layout}")
    layout.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because an image can be larger than /tmp.
    with scratch(layout.parent) as temporary:
        saved = temporary / "saved.tar"
        argv = [engine, "image", "save", "--output", str(saved), request.tag]
        run(argv, env=_environment()).require(f"could not save {request.tag}")
        return write_layout(
            saved, layout, tag=request.tag, epoch=request.epoch, added=added_layers()
        )
