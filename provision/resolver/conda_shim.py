"""A stand-in for the conda program that answers ``create --dry-run --json`` with py-rattler.

A real conda would have to be installed, and would read channels that change from day to day. The
protocol, for each platform, as of conda-lock 4.0: ``--version`` exits with 0, then ``create …
--channel NAME … --channel file:///…/conda-lock-fake-repodata-… SPEC …`` with ``CONDA_SUBDIR`` (the
last channel is left out: the virtual packages are those of our table of platforms) prints
``{"actions": {"FETCH": [records], "LINK": []}}``, or ``{"error": …, "message": …}`` with an exit
code other than 0. A channel given by name is read from the folder ``channels`` below the current
one, one given by URL from the network.
"""

import asyncio
import getopt
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rattler import (
    BuildString,
    Channel,
    Gateway,
    GenericVirtualPackage,
    MatchSpec,
    PackageName,
    RepoDataRecord,
    Subdir,
    Version,
    solve,
)

from provision.core.platforms import PLATFORMS

_OPTIONS = ("channel=", "prefix=", "override-channels", "dry-run", "json", "no-pip")
# Part of the name of the folder that conda-lock writes the virtual packages to.
_VIRTUAL = "conda-lock-fake-repodata-"


def virtual_packages(platform: str) -> list[GenericVirtualPackage]:
    """Return the virtual packages of the oldest machine that a platform stands for."""
    packages = []
    for name, text in PLATFORMS[platform].virtual.items():
        version, _, build = text.partition(" ")
        # py-rattler raises TypeError for plain strings.
        package = GenericVirtualPackage(
            PackageName(name), Version(version), BuildString(build or "0")
        )
        packages.append(package)
    return packages


async def _solve(
    channels: Sequence[str], specs: Sequence[str], subdir: str
) -> list[RepoDataRecord]:
    """Return the packages that satisfy the specs on a platform, sorted by name."""
    urls = []
    for channel in channels:
        if "://" not in channel:
            urls.append(Path("channels", channel).absolute().as_uri())
        elif _VIRTUAL not in channel:
            urls.append(channel)
    records = await solve(
        [Channel(url) for url in urls],
        [MatchSpec(spec) for spec in specs],
        Gateway(),
        platforms=[Subdir(subdir), Subdir("noarch")],
        virtual_packages=virtual_packages(subdir),
    )
    return sorted(records, key=lambda record: str(record.name.normalized))


def _fetch_entry(record: RepoDataRecord) -> dict[str, Any]:
    """Return a record as conda writes it in its JSON."""
    fields: dict[str, Any] = json.loads(record.to_json())
    fields["url"] = record.url
    fields["fn"] = record.file_name
    fields["channel"] = record.channel
    return fields


def emulate_conda(argv: Sequence[str]) -> tuple[int, str]:
    """Return conda's exit code and standard output for a command line."""
    if argv == ["--version"]:
        return 0, "conda 25.0.0"  # conda-lock only checks the exit code
    if argv[:1] != ["create"]:
        refusal = {"message": f"unknown command {' '.join(argv)}"}
        return 2, json.dumps(refusal)
    try:
        options, specs = getopt.gnu_getopt(list(argv[1:]), "", _OPTIONS)
        channels = [value for name, value in options if name == "--channel"]
        subdir = os.environ["CONDA_SUBDIR"]
        records = asyncio.run(_solve(channels, specs, subdir))
    except Exception as error:  # noqa: BLE001 - conda-lock reads every failure as JSON
        failure = {"error": type(error).__name__, "message": str(error)}
        return 1, json.dumps(failure)
    actions = {"FETCH": list(map(_fetch_entry, records)), "LINK": []}
    return 0, json.dumps({"actions": actions})


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
