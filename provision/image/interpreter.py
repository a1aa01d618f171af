"""The Python of an image: an archive of the catalog, by its hash, that runs on any base image."""

from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.pythons import CATALOG, newest, pythons_for
from provision.catalog.snapshot import Interpreter
from provision.core.errors import UsageError
from provision.core.progress import Progress
from provision.image.request import ImageRequest, docker_file
from provision.image.supply import copy_verified


def find_interpreter(request: ImageRequest) -> Interpreter:
    """Return the newest Python of the catalog that is the spec's; UsageError if there is none."""
    target = request.target
    pythons = pythons_for(request.project.catalog, target.platform)
    if found := newest(pythons, target.python_version):
        return found
    listed = ", ".join(map(str, sorted({file.version for file in pythons})))
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
