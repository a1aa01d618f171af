"""The Python of an image: an archive of the catalog, by its hash, that runs on any base image."""

from provision.artifacts.wheelhouse import WantedFile
from provision.catalog.snapshot import Interpreter, Interpreters, load_snapshot
from provision.core.errors import UsageError
from provision.core.platforms import PLATFORMS
from provision.core.progress import Progress
from provision.core.project import shipped
from provision.image.request import ImageRequest
from provision.image.supply import copy_verified

CATALOG = "python-standalone"


def find_interpreter(request: ImageRequest) -> Interpreter:
    """Return the newest Python of the catalog that is the spec's; UsageError if there is none."""
    target = request.target
    machine = PLATFORMS[target.platform].machine
    known = load_snapshot(request.project.catalog, CATALOG, Interpreters).files
    fitting = [file for file in known if file.processor == machine]
    asked = f"{target.python_version}."
    chosen = [file for file in fitting if f"{file.version}.".startswith(asked)]
    if chosen:
        return max(chosen, key=lambda file: (file.version, file.release))
    versions = sorted({file.version for file in fitting})
    raise UsageError(
        f"no Python {target.python_version} for an image of {target.name}",
        evidence=f"the catalog {CATALOG} has {', '.join(map(str, versions))}",
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
    docker = shipped().root / "docker"
    names = ["leave-out-python.txt"]
    if not request.dev:
        names.append("leave-out-python-headers.txt")
    patterns = "".join((docker / name).read_text(encoding="utf-8") for name in names)
    (folder / "leave-out.txt").write_text(patterns, encoding="utf-8")
