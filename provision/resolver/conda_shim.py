"""Answers conda's ``create --dry-run --json`` with py-rattler, so that nobody needs conda.

conda-lock starts it as its conda (``--conda provision-conda``), once per platform. A channel that
is named is not asked over the network: ``PROVISION_CHANNELS`` is a folder that holds it. Only one
that is given by its address, as ``provision update`` does, is asked there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rattler import GenericVirtualPackage, RepoDataRecord

CHANNELS = "PROVISION_CHANNELS"
_IGNORED = {"--override-channels", "--dry-run", "--json", "--no-pip"}
# conda-lock hands the virtual packages (__glibc, __win …) over as one more channel.
VIRTUAL = "conda-lock-fake-repodata-"


def parse(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the channels and the specs of a ``create`` command line.

    Raises:
        ValueError: It has an option that this adapter does not know.
    """
    channels: list[str] = []
    specs: list[str] = []
    words = iter(argv)
    for word in words:
        if word in {"--channel", "-c"}:
            channels.append(next(words))
        elif word in {"--prefix", "-p"}:
            next(words)
        elif not word.startswith("-"):
            specs.append(word)
        elif word not in _IGNORED:
            raise ValueError(f"unknown option {word}")
    return channels, specs


def virtual_packages(channel: str, subdir: str) -> list[GenericVirtualPackage]:
    """Return the virtual packages in the folder that conda-lock made for them."""
    from rattler import (  # noqa: PLC0415 - only where it is installed
        BuildString,
        GenericVirtualPackage,
        PackageName,
        Version,
    )

    root = Path(unquote(urlsplit(channel).path))
    files = [root / folder / "repodata.json" for folder in (subdir, "noarch")]
    records = [
        record
        for file in files
        if file.is_file()
        for record in json.loads(file.read_text(encoding="utf-8"))["packages"].values()
        if record.get("package_type") == "virtual_system"
    ]
    return [
        GenericVirtualPackage(
            PackageName(record["name"]), Version(record["version"]), BuildString(record["build"])
        )
        for record in records
    ]


async def solve(
    channels: Sequence[str], specs: Sequence[str], subdir: str, folder: Path
) -> list[RepoDataRecord]:
    """Return the packages that meet the specs on a platform, by name.

    Args:
        channels: Names or addresses of channels, and conda-lock's own one of virtual packages.
        specs: conda match specs.
        subdir: The platform.
        folder: Holds each channel that is named.
    """
    from rattler import Channel, Gateway, MatchSpec, Subdir, solve  # noqa: PLC0415

    own = [channel for channel in channels if VIRTUAL in channel]
    asked = [name if "://" in name else (folder / name).as_uri() for name in channels]
    found = await solve(
        [Channel(url) for url in asked if url not in own],
        [MatchSpec(spec) for spec in specs],
        Gateway(),
        platforms=[Subdir(subdir), Subdir("noarch")],
        virtual_packages=[package for name in own for package in virtual_packages(name, subdir)],
    )
    return sorted(found, key=lambda record: str(record.name.normalized))


def fetch_record(record: RepoDataRecord) -> dict[str, Any]:
    """Return a record as conda's JSON tells it."""
    told: dict[str, Any] = json.loads(record.to_json())
    return told | {"url": record.url, "fn": record.file_name, "channel": record.channel}


def respond(argv: Sequence[str]) -> tuple[int, str]:
    """Return the exit code and the text that conda would give to a command line."""
    if argv == ["--version"]:
        return 0, "conda 25.0.0"  # conda-lock only wants to see it succeed
    if not argv or argv[0] != "create":
        return 2, json.dumps({"message": f"unknown command {' '.join(argv)}"})
    import asyncio  # noqa: PLC0415 - whoever only wants this module's names need not load it

    try:
        channels, specs = parse(argv[1:])
        folder, subdir = Path(os.environ.get(CHANNELS, "")), os.environ["CONDA_SUBDIR"]
        records = asyncio.run(solve(channels, specs, subdir, folder))
    except Exception as error:  # noqa: BLE001 - whatever it is, conda-lock must get it as JSON
        return 1, json.dumps({"error": type(error).__name__, "message": str(error)})
    return 0, json.dumps({"actions": {"FETCH": [fetch_record(r) for r in records], "LINK": []}})


def main() -> None:
    """Answer the command line of this process and end it."""
    code, text = respond(sys.argv[1:])
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    # py-rattler 0.28 sometimes dies by a signal while the interpreter shuts down.
    os._exit(code)


if __name__ == "__main__":
    main()
