"""The folder that an image is built in, made from nothing but the spec and the lock of a target."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from provision import __version__
from provision.artifacts.parallel_fetch import wanted_archive
from provision.artifacts.wheelhouse import find_artifacts
from provision.commands.smoke import expectation
from provision.core.errors import UsageError
from provision.core.filesystem import is_tagged, make_tagged, remove_tagged, write_atomic
from provision.core.hashing import sha256_file
from provision.core.text import plural
from provision.image.in_container import PREFIX
from provision.installer import uv
from provision.lockfile import sbom
from provision.lockfile.conda import conda_packages

if TYPE_CHECKING:
    from provision.artifacts.wheelhouse import NamedArtifact
    from provision.core.process import Run
    from provision.core.progress import Progress
    from provision.core.project import Project
    from provision.installer.install import ArtifactSources
    from provision.lockfile.pip import Lock
    from provision.spec.model import Target

_CHECKOUT = Path(__file__).resolve().parents[2]
_MACHINE = "x86_64-manylinux_2_28"  # what uv calls the images' platform
# What the image of every target has of the distribution: truststore and with it every download of
# a model reads the system's certificates.
_PACKAGES = ("ca-certificates",)
# Where things lie in the image.
_HOME = Path("opt/provision")
SBOM = _HOME / "sbom.cdx.json"


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """Which image to build.

    Attributes:
        supply: Where its artifacts may come from.
        base_image: Instead of the default of ``docker/Dockerfile``.
        dev: With a C++ compiler and the headers, for ``torch.compile``.
    """

    project: Project
    target: Target
    lock: Lock
    supply: ArtifactSources
    base_image: str | None = None
    dev: bool = False

    @property
    def name(self) -> str:
        """Name of the image, without registry and tag."""
        return f"provision/{self.target.name}{'-dev' if self.dev else ''}"

    @property
    def tag(self) -> str:
        """Name and tag of the image: the start of its lock's digest."""
        return f"{self.name}:{self.lock.digest[:12]}"

    @property
    def context(self) -> Path:
        """The folder that the image is built in."""
        return self.project.root / ".cache" / "docker" / self.name.rpartition("/")[2]

    @property
    def epoch(self) -> int:
        """The one time of everything in the image: the cut-off of the lock, in Unix seconds."""
        midnight = dt.datetime.combine(self.target.pip.cutoff, dt.time(), dt.UTC)
        return int(midnight.timestamp())


def prepare_context(order: ImageRequest, run: Run, progress: Progress) -> None:
    """Make the folder that an image is built in, from nothing but spec and lock.

    Raises:
        UsageError: The target has no images, or offline needs files that are in no wheelhouse.
        ToolError: The toolkit's own packages cannot be had, or the disk is full.
    """
    target = order.target
    if target.docker is None:
        raise UsageError(
            f"{target.name} has no images",
            cause="its spec has no table [docker]",
            remedy=f"add `[docker]` to envs/{target.name}.toml; images are for linux-64",
        )
    progress.step(f"preparing {order.context}")
    tools = _tools(order, run)
    if is_tagged(order.context):
        remove_tagged(order.context)
    make_tagged(order.context)
    write_atomic(order.context / "Dockerfile", dockerfile(order))
    _copy_artifacts(order, progress)
    _copy_system(order)
    _copy_toolkit(order, tools)
    _copy_suite(order)


def dockerfile(order: ImageRequest) -> str:
    """Return the Dockerfile with the target's variables and labels added to its last stage."""
    lines = [(_CHECKOUT / "docker" / "Dockerfile").read_text(encoding="utf-8")]
    for key, value in order.target.variables(PREFIX).items():
        lines.append(f"ENV {key}={_quoted(value)}")
    for key, value in labels(order).items():
        lines.append(f"LABEL {key}={_quoted(value)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("$", "\\$")


def labels(order: ImageRequest) -> dict[str, str]:
    """Return the image's labels; https://specs.opencontainers.org/image-spec/annotations/."""
    versions = order.lock.versions
    named = sorted({Requirement(text).name for text in order.target.pip.requirements})
    return {
        "org.opencontainers.image.title": order.name,
        "org.opencontainers.image.description": order.target.summary,
        "org.opencontainers.image.version": order.lock.digest[:12],
        "org.opencontainers.image.licenses": "Apache-2.0",
        "provision.target": order.target.name,
        "provision.status": order.target.status,
        "provision.lock": order.lock.digest,
        "provision.spec": order.target.digest(),
        "provision.python": order.target.python,
        "provision.packages": " ".join(f"{n}=={versions[n]}" for n in named if n in versions),
        "provision.toolkit": __version__,
    }


def _tools(order: ImageRequest, run: Run) -> Path:
    """Return a folder with the toolkit's own packages as the image's Python takes them."""
    lock = _CHECKOUT / "lockfiles" / "tools" / "requirements.txt"
    name = f"tools-{sha256_file(lock)[:12]}-{order.target.python}"
    folder = order.context.parent / name
    if folder.is_dir():
        return folder
    order.context.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch, name)
        argv = [uv.uv_program(), "pip", "install", "--no-config", "--quiet", "--no-deps",
                "--require-hashes", "--no-build", "--target", str(made),
                "--python-platform", _MACHINE, "--python-version", order.target.python,
                "--requirements", str(lock)]  # fmt: skip
        if url := order.supply.indexes.get("default"):
            argv += ["--default-index", url]
        run(argv).require("could not fetch what the toolkit itself needs inside of the build")
        made.rename(folder)
    return folder


def _copy_artifacts(order: ImageRequest, progress: Progress) -> None:
    """Link wheels and conda packages of the lock that are here into the context."""
    archives = map(wanted_archive, conda_packages(order.lock))
    items: list[NamedArtifact] = [*order.lock.artifacts, *archives]
    found = find_artifacts(items, (*order.supply.wheelhouses, order.project.archives))
    missing = [item.filename for item in items if item not in found]
    if order.supply.offline and missing:
        raise UsageError(
            f"{plural(len(missing), 'file')} of the lock in no wheelhouse",
            evidence="\n".join(missing[:8]),
            cause="--offline was given",
            remedy="put them into a folder and name it with --wheelhouse, or drop --offline",
        )
    house = order.context / "wheelhouse"
    house.mkdir()
    for path in found.values():
        _link(path, house / path.name)
    progress.step(f"{plural(len(found), 'file')} of {len(items)} from wheelhouses")


def _link(source: str | Path, target: str | Path) -> None:
    """Give a file a second name, or copy it where the disk does not allow that."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _copy_system(order: ImageRequest) -> None:
    python = f"python{order.target.python}"
    packages = {python, *_PACKAGES, *(order.target.docker.apt if order.target.docker else ())}
    if order.dev:
        packages |= {"g++", f"{python}-dev"}
    folder = order.context / "system"
    folder.mkdir()
    shutil.copy2(_CHECKOUT / "docker" / "system.sh", folder / "install.sh")
    lines = "".join(f"{package}\n" for package in sorted(packages))
    (folder / "packages.txt").write_text(lines, encoding="utf-8")


def _copy_toolkit(order: ImageRequest, tools: Path) -> None:
    """Copy what runs inside of the build: the toolkit, and of the project what makes the target."""
    top, name = order.context / "toolkit", order.target.name
    bare = shutil.ignore_patterns("__pycache__")
    shutil.copytree(tools, top / "lib", copy_function=_link, ignore=bare)
    shutil.copytree(_CHECKOUT / "provision", top / "lib" / "provision", ignore=bare)
    (top / "envs" / "catalog").mkdir(parents=True)
    shutil.copy2(order.project.specs / f"{name}.toml", top / "envs")
    for index in order.target.pip.index:
        shutil.copy2(order.project.catalog / f"{index}.json", top / "envs" / "catalog")
    shutil.copytree(order.lock.folder, top / "lockfiles" / name)
    (top / "docker").mkdir()
    for script in (
        "bytecode.py",
        "leave-out.txt",
        *(() if order.dev else ("leave-out-headers.txt",)),
    ):
        shutil.copy2(_CHECKOUT / "docker" / script, top / "docker")


def _copy_suite(order: ImageRequest) -> None:
    """Copy what lies in the image beside the environment: the checks and what starts them."""
    home = order.context / "root" / _HOME
    bare = shutil.ignore_patterns("__pycache__")
    shutil.copytree(order.project.smoke, home / "smoke", ignore=bare)
    shutil.copytree(_CHECKOUT / "docker" / "bin", home / "bin")
    shutil.copy2(_CHECKOUT / "docker" / "entrypoint.py", home)
    expected = expectation(order.target, order.lock.versions) | {
        "environment": order.target.variables(PREFIX)
    }
    write_atomic(home / "expect.json", json.dumps(expected, indent=1) + "\n")
    write_atomic(order.context / "root" / SBOM, sbom.sbom(order.target, order.lock))
