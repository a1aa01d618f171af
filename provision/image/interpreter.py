"""The Python of an image: an archive of the catalog, by its hash, that runs on any base image."""

from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.snapshot import Interpreter, Interpreters, load_snapshot
from provision.core.errors import UsageError
from provision.core.platforms import PLATFORMS
from provision.core.progress import Progress
from provision.image.request import ImageRequest, docker_file
from provision.image.supply import copy_verified

CATALOG = "python-standalone"


def find_interpreter(request: ImageRequest) -> Interpreter:
    """Return the newest Python of the catalog that is the spec's; UsageError if there is none."""
    target = request.target
    machine = PLATFORMS[target.platform].machine
    snapshot = load_snapshot(request.project.catalog, CATALOG, Interpreters)
    versions = set()
    fitting = []
    for file in snapshot.files:
        if file.processor == machine:
            versions.add(file.version)
            if f"{file.version}.".startswith(f"{target.python_version}."):
                fitting.append(file)
    if fitting:
        return max(fitting, key=lambda file: (file.version, file.release))
    listed = ", ".join(map(str, sorted(versions)))
    raise UsageError(
        f"no Python {target.python_version} for an image of {target.name}",
        evidence=f"the catalog {CATALOG} has {listed}",
        cause="an image brings its own Python, by its hash",
        remedy="write one of these into the spec, as in `python = "
        f'"{target.python}"`, or run `provision update {CATALOG}`',
    )


def copy_interpreter(
    interpreter: Interpreter, request: ImageRequest, progress: Progress
) -> None:
    """Put a Python into the context, with its hash and what of it is left out of the image."""
    folder = request.context / "python"
    progress.step(f"Python {interpreter.release}")
    wanted = WantedFile(
        interpreter.filename, interpreter.sha256, None, interpreter.url, None
    )
    of = f"Python {interpreter.version}"
    copy_verified([wanted], folder, request, progress, of=of, catalog=CATALOG)
    patterns = docker_file("leave-out-python.txt").read_text(encoding="utf-8")
    if not request.dev:
        headers = docker_file("leave-out-python-headers.txt")
        patterns += headers.read_text(encoding="utf-8")
    (folder / "leave-out.txt").write_text(patterns, encoding="utf-8")
