"""Install the conda layer of an environment: verify the archives, then extract them to a prefix."""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from provision.artifacts.parallel_fetch import fetch_all, wanted_archive
from provision.core.errors import ToolError
from provision.core.process import Run
from provision.core.progress import Progress
from provision.core.text import plural
from provision.installer.plan import ArtifactSources
from provision.lockfile.conda import CondaPackage

_WORKER = Path(__file__).with_name("conda_worker.py")


def make_prefix(
    prefix: Path,
    packages: Sequence[CondaPackage],
    archives: Path,
    *,
    supply: ArtifactSources,
    run: Run,
    progress: Progress,
) -> None:
    """Install conda packages into a new folder."""
    # Every archive is first collected in ``archives`` and hashed: rattler verifies what it
    # downloads, but not local files (seen with 0.28.0). Rattler's package cache is a temporary
    # folder that is removed after the installation, so no cache can be tampered with.
    wanted = [wanted_archive(package) for package in packages]
    houses = supply.wheelhouses
    offline = supply.offline
    missing = fetch_all(wanted, archives, houses, progress, offline=offline)
    if missing:
        count = plural(len(missing), "package")
        raise ToolError(
            f"could not get {count} of the conda layer",
            evidence="\n".join(map(str, missing)),
            cause="neither a wheelhouse nor the channel has them",
            remedy=supply.remedy,
        )
    # Inside the prefix, so that the files of a killed build are removed with its generation.
    with tempfile.TemporaryDirectory(prefix=".conda-", dir=prefix) as name:
        plan = json.dumps(_plan(prefix, packages, archives, name))
        # -I: neither PYTHONPATH nor the user's site-packages can replace rattler.
        done = run([sys.executable, "-I", _WORKER], stdin=plan)
        done.require(
            f"could not install the conda layer into {prefix}",
            remedy="every archive had the right hash: check the disk and its free space",
        )


def _plan(
    prefix: Path, packages: Sequence[CondaPackage], archives: Path, folder: str
) -> dict[str, object]:
    entries = []
    for package in packages:
        depends = [f"{n} {spec}".strip() for n, spec in package.dependencies.items()]
        entry = {
            "name": package.name,
            "version": package.version,
            "build": package.build,
            "subdir": package.subdir,
            "sha256": package.sha256,
            "channel": package.url.rsplit("/", 2)[0],
            "depends": depends,
            "archive": str((archives / package.filename).resolve()),
        }
        entries.append(entry)
    return {
        "prefix": str(prefix.resolve()),
        "cache": str(Path(folder, "unpacked")),
        "platform": packages[0].platform,
        "packages": entries,
    }
