"""Make the build context of an image, with its labels and links to wheels, from spec and lock alone."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement

from provision import __version__
from provision.artifacts.parallel_fetch import wanted_archive
from provision.artifacts.tools import RUNTIME
from provision.artifacts.wheelhouse import WantedFile, find_artifacts
from provision.commands.expectation import expectation
from provision.commands.own_sources import with_built_wheels
from provision.core.errors import ToolError
from provision.core.filesystem import (
    is_tagged,
    link_or_copy,
    make_tagged,
    remove_tagged,
    write_atomic,
)
from provision.core.hashing import sha256_file
from provision.core.platforms import ACCELERATORS, PLATFORMS
from provision.core.process import Run
from provision.core.program import uv_program
from provision.core.progress import Progress
from provision.core.project import PACKAGE, fact, shipped
from provision.core.temporary import scratch
from provision.core.text import plural, shortened
from provision.image.base import find_base, required_glibc
from provision.image.drivers import copy_drivers, require_drivers
from provision.image.interpreter import copy_interpreter, find_interpreter
from provision.image.request import ImageRequest, docker_file, dockerfile_text
from provision.installer import uv
from provision.lockfile import sbom
from provision.lockfile.conda import conda_packages
from provision.lockfile.pip import Artifact
from provision.spec.text import resolved_text

_BYTECODE = shutil.ignore_patterns("__pycache__")
# Paths in the image.
PREFIX = Path("/opt/env")
_HOME = Path("opt/provision")
SBOM = _HOME / "sbom.cdx.json"
# The packages of smoke/engine/runner.py, as they are named in a folder of packages.
_RUNNER = (
    "pytest",
    "_pytest",
    "py.py",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "exceptiongroup",
)


def prepare_context(request: ImageRequest, run: Run, progress: Progress) -> None:
    """Make the folder of the build context; UsageError if the image could not prove itself."""
    drivers = require_drivers(request)
    find_base(request)
    interpreter = find_interpreter(request)
    progress.step(f"preparing {request.context}")
    tools = _tools(request, run)  # first: it needs the network and can fail
    if is_tagged(request.context):
        remove_tagged(request.context)
    make_tagged(request.context)
    write_atomic(request.context / "Dockerfile", dockerfile(request))
    supply = with_built_wheels(
        request.project, request.lock, request.supply, run, progress
    )
    _copy_artifacts(replace(request, supply=supply), progress)
    _copy_system(request)
    copy_interpreter(interpreter, request, progress)
    if drivers:
        copy_drivers(drivers, request, progress)
    _copy_toolkit(request, tools)
    _copy_suite(request)
    copy_runner(tools, request.context / "root" / _HOME / "runner")


def dockerfile(request: ImageRequest) -> str:
    """Return the Dockerfile with the target's variables and labels added to the last stage."""
    lines = [dockerfile_text()]
    accelerator = ACCELERATORS[request.target.accelerator]
    variables = accelerator.variables | request.target.variables(PREFIX)
    for key, value in variables.items():
        lines.append(f"ENV {key}={_quoted(value)}")
    for key, value in labels(request).items():
        lines.append(f"LABEL {key}={_quoted(value)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # A quoted string of a Dockerfile has JSON's escapes, and "$" starts a variable.
    return json.dumps(text, ensure_ascii=False).replace("$", "\\$")


def labels(request: ImageRequest) -> dict[str, str]:
    """Return the image's labels; https://specs.opencontainers.org/image-spec/annotations/."""
    target = request.target
    lock = request.lock
    required = {Requirement(text).name for text in target.pip.requirements}
    locked = sorted(required & lock.versions.keys())
    texts = {
        "org.opencontainers.image.title": request.name,
        "org.opencontainers.image.description": target.summary,
        "org.opencontainers.image.version": lock.digest[:12],
        "org.opencontainers.image.licenses": "Apache-2.0",
        "provision.target": target.name,
        "provision.status": target.status,
        "provision.lock": lock.digest,
        "provision.spec": target.digest(),
        "provision.python": target.python,
        "provision.packages": " ".join(f"{n}=={lock.versions[n]}" for n in locked),
        "provision.toolkit": __version__,
        "provision.interpreter": find_interpreter(request).release,
        "org.opencontainers.image.base.name": find_base(request).image,
    }
    if drivers := request.drivers():
        name = request.docker().drivers
        texts["provision.drivers"] = f"{name} {drivers.version}"
    return texts


def _tools(request: ImageRequest, run: Run) -> Path:
    """Return a folder with the toolkit's own packages for the Python of the image."""
    lock = shipped().lock("tools") / RUNTIME
    name = f"tools-{sha256_file(lock)[:12]}-{request.target.platform}-{request.target.python}"
    # Named by what decides it, so an equal folder is used again.
    folder = request.context.parent / name
    if folder.is_dir():
        return folder
    request.context.parent.mkdir(parents=True, exist_ok=True)
    options = ("--no-config", "--quiet", "--no-deps", "--require-hashes", "--no-build")
    platform = PLATFORMS[request.target.platform].uv
    with scratch(folder.parent) as temporary:
        packages = temporary / name
        argv = [uv_program(), "pip", "install", *options]
        argv += ["--target", str(packages), "--python-platform", platform]
        argv += ["--python-version", request.target.python]
        argv += ["--requirements", str(lock)]
        env = uv.index_environment(request.supply.indexes.get("default"))
        run(argv, env=env).require(
            "could not download the packages that the toolkit needs in the build"
        )
        try:
            packages.rename(folder)  # complete or absent, whatever happens in between
        except OSError:
            if not folder.is_dir():  # not made by another image's build in the meantime
                raise
    return folder


def _copy_artifacts(request: ImageRequest, progress: Progress) -> None:
    """Link the artifacts of the lock that are in a wheelhouse into the context."""
    archives = map(wanted_archive, conda_packages(request.lock))
    items: list[Artifact | WantedFile] = [*request.lock.artifacts, *archives]
    folders = (*request.supply.wheelhouses, request.project.archives)
    paths = find_artifacts(items, folders)
    missing = [item.filename for item in items if item not in paths]
    if request.supply.offline and missing:
        raise ToolError(
            f"{plural(len(missing), 'file')} of the lock in no wheelhouse",
            evidence="\n".join(shortened(missing, 8)),
            cause="--offline was given",
            remedy="put them into a folder and name it with --wheelhouse DIR",
        )
    wheelhouse = request.context / "wheelhouse"
    wheelhouse.mkdir()
    for path in paths.values():
        link_or_copy(path, wheelhouse / path.name)
    progress.step(f"{plural(len(paths), 'file')} of {len(items)} from wheelhouses")


def _copy_system(request: ImageRequest) -> None:
    # Model downloads verify TLS with the certificates of the distribution.
    packages = {"ca-certificates", *request.docker().apt}
    if request.dev:
        packages.add("g++")
    folder = request.context / "system"
    folder.mkdir()
    shutil.copy2(docker_file("system.sh"), folder / "install.sh")
    lines = "".join(f"{package}\n" for package in sorted(packages))
    (folder / "packages.txt").write_text(lines, encoding="utf-8")
    glibc = " ".join(required_glibc(request))
    (folder / "glibc.txt").write_text(f"{glibc}\n", encoding="utf-8")


def _copy_toolkit(request: ImageRequest, tools: Path) -> None:
    """Copy what runs in the build: the toolkit, and the files of the project for the target."""
    top = request.context / "toolkit"
    name = request.target.name
    lib = top / "lib"
    shutil.copytree(tools, lib, copy_function=link_or_copy, ignore=_BYTECODE)
    bare = shutil.ignore_patterns("__pycache__", "shipped")
    shutil.copytree(PACKAGE, lib / "provision", ignore=bare)
    envs = top / "envs"
    (envs / "catalog").mkdir(parents=True)
    text = resolved_text(request.project.specs / f"{name}.toml")
    write_atomic(envs / f"{name}.toml", text)
    # Of the catalog only what the target uses: another index must not change the layer's cache key.
    for index in request.target.pip.index:
        snapshot = fact(request.project.catalog, f"{index}.json")
        shutil.copy2(snapshot, envs / "catalog")
    shutil.copytree(request.lock.folder, top / "lockfiles" / name)
    (top / "docker").mkdir()
    scripts = ["bytecode.py", "environment.py", "leave-out.txt"]
    if not request.dev:
        scripts.append("leave-out-headers.txt")
    for script in scripts:
        shutil.copy2(docker_file(script), top / "docker")


def _copy_suite(request: ImageRequest) -> None:
    """Copy what is in the image beside the environment: the checks and the entry point."""
    root = request.context / "root"
    target = request.target
    home = root / _HOME
    shutil.copytree(request.project.smoke, home / "smoke", ignore=_BYTECODE)
    shutil.copytree(docker_file("bin"), home / "bin")
    shutil.copy2(docker_file("entrypoint.py"), home)
    expected = expectation(target, request.lock.versions, request.project.catalog)
    expected["environment"] = target.variables(PREFIX)
    write_atomic(home / "expect.json", json.dumps(expected, indent=1) + "\n")
    accelerator = target.accelerator
    device = {"accelerator": accelerator, **ACCELERATORS[accelerator]._asdict()}
    write_atomic(home / "device.json", json.dumps(device) + "\n")
    write_atomic(root / SBOM, sbom.sbom(target, request.lock))


def copy_runner(packages: Path, home: Path) -> None:
    """Copy the pytest of the checks, with what it needs and their licences, into a new folder."""
    home.mkdir()
    for name in _RUNNER:
        metadata = packages.glob(f"{name}-*.dist-info")
        for source in (*packages.glob(name), *metadata):
            if source.is_dir():
                shutil.copytree(source, home / source.name, ignore=_BYTECODE)
            else:
                shutil.copy2(source, home)
