"""A stand-in for the conda program that answers ``create --dry-run --json`` with py-rattler.

A real conda would have to be installed, and would read channels that change from day to day. The
protocol, for each platform, as of conda-lock 4.0: ``--version`` exits with 0, then ``create …
--channel NAME … --channel file:///…/conda-lock-fake-repodata-… SPEC …`` with ``CONDA_SUBDIR`` (the
last channel is left out: the virtual packages are those of our table of platforms) prints
``{"actions": {"FETCH": [records], "LINK": []}}``, or ``{"error": …, "message": …}`` with an exit
code other than 0. A channel given by name is read from the folder ``PROVISION_CHANNELS``, one given
by URL from the network.
"""

from __future__ import annotations

import getopt
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision.core.platforms import PLATFORMS

if TYPE_CHECKING:
    from rattler import GenericVirtualPackage, RepoDataRecord

CHANNELS = "PROVISION_CHANNELS"
_IGNORED = ("override-channels", "dry-run", "json", "no-pip")
# Part of the name of the folder that conda-lock writes the virtual packages to.
_VIRTUAL = "conda-lock-fake-repodata-"


def parse(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the channels and the match specs of a ``create`` command line."""
    options, specs = getopt.gnu_getopt(
        list(argv), "c:p:", ["channel=", "prefix=", *_IGNORED]
    )
    return [value for name, value in options if name in {"--channel", "-c"}], specs


def virtual_packages(platform: str) -> list[GenericVirtualPackage]:
    """Return the virtual packages of the oldest machine that a platform stands for."""
    from rattler import BuildString, GenericVirtualPackage, PackageName, Version  # noqa: PLC0415

    return [
        # py-rattler raises TypeError for plain strings.
        GenericVirtualPackage(
            PackageName(name), Version(version), BuildString(build or "0")
        )
        for name, text in PLATFORMS[platform].virtual.items()
        for version, _, build in [text.partition(" ")]
    ]


async def solve(
    channels: Sequence[str], specs: Sequence[str], subdir: str, folder: Path
) -> list[RepoDataRecord]:
    """Return the packages that satisfy the specs on a platform, sorted by name."""
    from rattler import Channel, Gateway, MatchSpec, Subdir, solve  # noqa: PLC0415

    own = [channel for channel in channels if _VIRTUAL not in channel]
    urls = [name if "://" in name else (folder / name).as_uri() for name in own]
    found = await solve(
        [Channel(url) for url in urls],
        [MatchSpec(spec) for spec in specs],
        Gateway(),
        platforms=[Subdir(subdir), Subdir("noarch")],
        virtual_packages=virtual_packages(subdir),
    )
    return sorted(found, key=lambda record: str(record.name.normalized))


def fetch_record(record: RepoDataRecord) -> dict[str, Any]:
    """Return a record as conda writes it in its JSON."""
    fields: dict[str, Any] = json.loads(record.to_json())
    return fields | {
        "url": record.url,
        "fn": record.file_name,
        "channel": record.channel,
    }


def emulate_conda(argv: Sequence[str]) -> tuple[int, str]:
    """Return conda's exit code and standard output for a command line."""
    if argv == ["--version"]:
        return 0, "conda 25.0.0"  # conda-lock only checks the exit code
    if not argv or argv[0] != "create":
        return 2, json.dumps({"message": f"unknown command {' '.join(argv)}"})
    import asyncio  # noqa: PLC0415 - slow; conda_lock imports this module for its names only

    try:
        channels, specs = parse(argv[1:])
        folder, subdir = Path(os.environ.get(CHANNELS, "")), os.environ["CONDA_SUBDIR"]
        records = asyncio.run(solve(channels, specs, subdir, folder))
    except Exception as error:  # noqa: BLE001 - conda-lock reads every failure as JSON
        return 1, json.dumps({"error": type(error).__name__, "message": str(error)})
    return 0, json.dumps(
        {"actions": {"FETCH": [fetch_record(r) for r in records], "LINK": []}}
    )


def main() -> None:
    """Run the command line of this process, and end it."""
    code, text = emulate_conda(sys.argv[1:])
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    # Not sys.exit: py-rattler 0.28 sometimes (2 to 18 % of runs) dies by a signal while the
    # interpreter shuts down, after the answer is written.
    os._exit(code)


if __name__ == "__main__":
    main()
