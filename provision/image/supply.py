"""Files of an image that a hash of the catalog decides: from a wheelhouse, or from their address."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from provision.artifacts.parallel_fetch import fetch_all
from provision.artifacts.wheelhouse import WantedFile
from provision.core.errors import UsageError
from provision.core.progress import Progress
from provision.core.text import plural
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

    One without an address is left to the build, where apt gets it. UsageError: one is missing.
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
        raise UsageError(
            f"{plural(len(missing), 'package')} of {of} missing",
            evidence="\n".join(map(str, missing)),
            remedy="put them into a folder and name it with --wheelhouse; "
            f"{catalog} of the catalog has their addresses, or the versions by which apt has them",
        )
    folder.mkdir(parents=True)
    sums = ""  # checked again in the build: with --print it runs later, often elsewhere
    for file in files:
        if (cache / file.filename).is_file():
            shutil.copyfile(cache / file.filename, folder / file.filename)
        sums += f"{file.sha256}  {file.filename}\n"
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
