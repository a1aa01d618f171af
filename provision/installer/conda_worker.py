"""Install conda packages into a prefix with py-rattler. A separate program, never imported.

:mod:`provision.installer.conda` writes the plan to its standard input; it exits with 0, or with 1
and the error on standard error. Not in the toolkit's process, because rattler's threads sometimes
end an interpreter by a signal during its shutdown (0.28.0), which this process leaves out.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from rattler import BuildString, PackageRecord, RepoDataRecord, Subdir, install
from rattler.config import Config
from rattler.package_cache import PackageCache, ValidationMode

# A linked file is shared with the cache: editing it in the environment would edit the cache.
_COPIES = "allow-hard-links = false\nallow-symbolic-links = false\n"


def main(plan: dict[str, Any]) -> None:
    """Install every package of a plan into its prefix, which is new."""
    # execute_link_scripts: they are code of packages, which would run with the user's rights.
    cache = PackageCache.new_layered(
        [Path(plan["cache"])], validation_mode=ValidationMode.full()
    )
    asyncio.run(
        install(
            [_record(package) for package in plan["packages"]],
            plan["prefix"],
            package_cache=cache,
            platform=Subdir(plan["platform"]),
            config=Config.from_toml(_COPIES),
            execute_link_scripts=False,
            show_progress=False,
        )
    )


def _record(package: dict[str, Any]) -> RepoDataRecord:
    # Build strings end in the build number, py311_0; the lock has no field for it.
    tail = package["build"].rpartition("_")[2]
    record = PackageRecord(
        name=package["name"],
        version=package["version"],
        build=BuildString(package["build"]),
        build_number=int(tail) if tail.isdigit() else 0,
        subdir=package["subdir"],
        depends=package["depends"],
        sha256=bytes.fromhex(package["sha256"]),
    )
    archive = Path(package["archive"])
    return RepoDataRecord(record, archive.name, archive.as_uri(), package["channel"])


if __name__ == "__main__":
    code = 0
    try:
        main(json.load(sys.stdin))
    except BaseException as error:  # noqa: BLE001 - every failure is reported and ends the process
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
