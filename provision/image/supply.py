"""Files of an image that a hash of the catalog decides: from a wheelhouse, or from their address."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from provision.artifacts.parallel_fetch import MissingFile, fetch_all
from provision.artifacts.wheelhouse import WantedFile
from provision.core.errors import ToolError
from provision.core.progress import Progress
from provision.core.text import plural, shortened
from provision.image.request import ImageRequest


def copy_verified(
    files: Sequence[WantedFile],
    folder: Path,
    request: ImageRequest,
    progress: Progress,
    *,
    of: str,
    catalog: str,
) -> None:
    """Put packages into a new folder of the context, with their hashes for the build.

    One without an address is left to the build, where apt gets it. ToolError: one is missing.
    """
    supply = request.supply
    cache = request.context.parent / catalog  # keeps downloads for the next image
    houses = supply.wheelhouses
    offline = supply.offline
    addressed = [file for file in files if file.source]
    missing = fetch_all(addressed, cache, houses, progress, offline=offline)
    others = [file for file in files if not file.source]
    without_address = fetch_all(others, cache, houses, progress, offline=True)
    if offline:
        missing += without_address
    if missing:
        raise _missing(of, missing, files)
    folder.mkdir(parents=True)
    sums = ""  # checked again in the build: with --print it runs later, often elsewhere
    for file in files:
        if (cache / file.filename).is_file():
            shutil.copyfile(cache / file.filename, folder / file.filename)
        sums += f"{file.sha256}  {file.filename}\n"
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")


def _missing(
    of: str, missing: Sequence[MissingFile], files: Sequence[WantedFile]
) -> ToolError:
    addresses = {file.filename: file.source for file in files}
    lines = []
    for file in missing:
        address = addresses[file.filename]
        where = f"its address is {address}" if address else "apt has it"
        lines.append(f"{file}; {where}")
    return ToolError(
        f"could not get {plural(len(missing), 'file')} of {of}",
        evidence="\n".join(shortened(lines, 8)),
        remedy="put them into a folder and name it with --wheelhouse DIR",
    )
