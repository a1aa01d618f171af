"""Compares the files of a bundle with its manifest, before the bundle's command does anything else.

It needs a Python alone and imports nothing of the bundle, which may be damaged.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

_MANIFEST = "manifest.json"
# Set by the role for Ansible, which pushes no manifest: rsync compares what it brings.
_PUSHED = "PROVISION_PUSHED"
_SAID = 8  # damaged files that are named
_PIECE = 1 << 20  # bytes
_PATIENCE = 1.0  # seconds without a word


def main(folder: Path) -> int:
    """Return 0 if all files are as they were collected; else name those that are not."""
    if os.environ.get(_PUSHED):
        return 0
    try:
        text = (folder / _MANIFEST).read_text(encoding="utf-8")
        files = [(file, folder / file["path"]) for file in json.loads(text)["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return _refuse(f"this bundle's {_MANIFEST} cannot be read", [str(error)])
    damaged = []
    spoken = time.monotonic()
    for number, (file, path) in enumerate(files):
        if fault := _fault(file, path):
            damaged.append(fault)
        if time.monotonic() - spoken > _PATIENCE:
            spoken = time.monotonic()
            _say(f"compared {number + 1} of {len(files)} files with their hashes")
    if not damaged:
        return 0
    what = f"{len(damaged)} of {len(files)} files of this bundle are damaged or absent"
    return _refuse(f"{what}; nothing was installed", damaged)


def _fault(file: dict[str, str], path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        return f"{file['path']}  {error.strerror}"
    found, listed = digest.hexdigest(), file["sha256"]
    return (
        "" if found == listed else f"{file['path']}  sha256 {found}, must be {listed}"
    )


def _refuse(what: str, evidence: list[str]) -> int:
    more = len(evidence) - _SAID
    lines = evidence[:_SAID] + ([f"… and {more} more"] if more > 0 else [])
    _say(f"error: {what}")
    for number, line in enumerate(lines):
        _say(f"  {'' if number else 'evidence:':<10}{line}")
    _say("  remedy:   copy them again from where the bundle was collected")
    return 3


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
