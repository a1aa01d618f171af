"""Lock -> an image: everything that is in it comes from the spec and the lock of its target."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.core.errors import ToolError
from provision.core.process import clean_environment
from provision.image.context import SBOM, prepare_context
from provision.image.oci import write_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.image.context import ImageRequest

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """What was built.

    Attributes:
        id: Of the image in the engine.
        size: Of all its layers, in bytes.
        seconds: How long the engine took.
        sbom: The list of what is in it (CycloneDX).
        layout: The OCI layout, where one was asked for.
        digest: Of the manifest in the layout.
    """

    target: str
    tag: str
    id: str
    size: int
    seconds: float
    sbom: Path
    layout: Path | None = None
    digest: str | None = None


def build_image(
    order: ImageRequest, run: Run, progress: Progress, *, layout: Path | None = None
) -> BuiltImage:
    """Build the image of a target, and write it as an OCI layout where that is wished.

    Raises:
        UsageError: The target has no images.
        ToolError: There is no engine with BuildKit, or the build failed.
    """
    engine = find_engine(run)
    prepare_context(order, run, progress)
    progress.step(f"building {order.tag}")
    argv = build_argv(order, engine, os.environ)
    built = run(argv, env=_environment(), to_terminal=True)
    built.require(
        f"could not build the image of {order.target.name}",
        remedy="what failed is above; `--print` shows the command, to be run by hand",
    )
    image, size = _inspect(engine, order.tag, run)
    digest = None
    if layout:
        progress.step(f"writing {layout}")
        digest = _export(engine, order, layout, run)
    return BuiltImage(
        target=order.target.name,
        tag=order.tag,
        id=image,
        size=size,
        seconds=round(built.seconds, 1),
        sbom=order.context / "root" / SBOM,
        layout=layout,
        digest=digest,
    )


def find_engine(run: Run) -> str:
    """Return the first ``docker`` on PATH that builds with BuildKit and whose engine answers.

    A client before 23 has BuildKit built in; a later one needs its plugin buildx.

    Raises:
        ToolError: There is none; what each of them said is the evidence.
    """
    said = []
    for program in _on_path("docker"):
        version = run([program, "version", "--format", "{{.Client.Version}} {{.Server.Version}}"],
                      env=_environment())  # fmt: skip
        if version.returncode:
            said.append(f"{program}: {version.stderr.strip()}")
        elif _builds(program, version.stdout, run):
            return program
        else:
            said.append(f"{program}: client {version.stdout.split()[0]} without its plugin buildx")
    raise ToolError(
        "there is no Docker engine that can build",
        evidence="\n".join(said) or "no `docker` on PATH",
        remedy="install Docker with buildx, start its engine, and check that you may use it",
    )


def _builds(program: str, versions: str, run: Run) -> bool:
    major = versions.partition(".")[0]
    if major.isdigit() and int(major) < 23:
        return True
    return run([program, "buildx", "version"], env=_environment()).returncode == 0


def _on_path(name: str) -> list[str]:
    folders = clean_environment()["PATH"].split(os.pathsep)
    found = (shutil.which(name, path=folder) for folder in folders)
    return list(dict.fromkeys(path for path in found if path))


def _environment() -> dict[str, str]:
    """Return the environment of the client: its own settings are read on purpose."""
    own = {key: value for key, value in os.environ.items() if key.startswith(("DOCKER_", "PIP_"))}
    return clean_environment(extra=own | {"DOCKER_BUILDKIT": "1"})


def build_argv(order: ImageRequest, engine: str, env: Mapping[str, str]) -> list[str]:
    """Return the command that builds an image in its prepared context.

    What only the network needs, a mirror with its password and a private certificate authority,
    goes in as secrets, which no layer and no history holds.
    """
    values = {
        "TARGET": order.target.name,
        "PYTHON": order.target.python,
        "SOURCE_DATE_EPOCH": str(order.epoch),
    }
    if order.base_image:
        values["BASE_IMAGE"] = order.base_image
    if order.supply.offline:
        values["OPTIONS"] = "--offline"
    argv = [engine, "build", "--tag", order.tag, "--tag", f"{order.name}:latest"]
    for name, value in values.items():
        argv += ["--build-arg", f"{name}={value}"]
    if order.supply.offline:
        return [*argv, "--network", "none", str(order.context)]
    for name in _PROXIES:
        argv += ["--build-arg", name] if env.get(name) else []
    if bundle := clean_environment(env).get("SSL_CERT_FILE"):
        argv += ["--secret", f"id=ca,src={bundle}"]
    if env.get("PIP_INDEX_URL"):
        argv += ["--secret", "id=index,env=PIP_INDEX_URL"]
    return [*argv, str(order.context)]


def _inspect(engine: str, tag: str, run: Run) -> tuple[str, int]:
    argv = [engine, "image", "inspect", "--format", "{{.Id}} {{.Size}}", tag]
    told = run(argv, env=_environment()).require(f"could not look at {tag}").stdout.split()
    return told[0], int(told[1])


def _export(engine: str, order: ImageRequest, layout: Path, run: Run) -> str:
    layout.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.parent, prefix=".provision-") as scratch:
        saved = Path(scratch, "saved.tar")
        argv = [engine, "image", "save", "--output", str(saved), order.tag]
        run(argv, env=_environment()).require(f"could not save {order.tag}")
        return write_layout(saved, layout, tag=order.tag, epoch=order.epoch)
