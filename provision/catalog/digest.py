"""The digest of the part of the catalog that decides a lock: it shows whether a lock is stale."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from provision.catalog.snapshot import no_catalog
from provision.core.errors import damage_in
from provision.core.hashing import sha256_bytes
from provision.core.limits import read_parsed
from provision.core.project import fact
from provision.spec.model import Target

Entry = dict[str, Any]
# Keys that cannot change a lock, and so do not make one stale: where a fact comes from. The URL of
# a wheel cannot either, as a lock has no host; that of a conda package is in conda-lock.yml. A new
# record closes a gap in a lock at the next `provision lock`, but no package differs.
_PROVENANCE = frozenset({"basis", "confirmed", "note", "record", "replaced", "sources"})


def catalog_digest(folder: Path, target: Target) -> str:
    """Return the SHA-256 of the part of the catalog that decides a target's lock.

    Only the wheels of assigned names and the conda packages of the platform count, so refreshing
    one index does not make every lock stale. The files are not validated: every build computes
    this digest, also the one that finds nothing to do. SpecError: one is missing or is not JSON.
    """
    part = {}
    for index, names in target.pip.index.items():
        path = fact(folder, f"{index}.json")
        part[index] = entries(path, "files", is_of(names), _PROVENANCE | {"url"})
    subdirs = {target.platform, "noarch"}
    for channel in target.channels:
        path = fact(folder, f"{channel}.json")
        part[channel] = entries(
            path, "packages", lambda entry: entry["subdir"] in subdirs, _PROVENANCE
        )
    text = json.dumps(part, sort_keys=True)
    return sha256_bytes(text.encode())


def is_of(names: Collection[str]) -> Callable[[Entry], bool]:
    """Return whether a wheel of an index is of one of some distributions."""

    def is_of_names(entry: Entry) -> bool:
        # The name is all before the first dash of a wheel's file name; to parse it whole costs more.
        name, _, _ = entry["filename"].partition("-")
        return canonicalize_name(name) in names

    return is_of_names


def entries(
    path: Path,
    key: str,
    wanted: Callable[[Entry], bool],
    without: Collection[str] = (),
) -> list[Entry]:
    """Return the entries of a snapshot that are wanted, in a fixed order and not validated.

    SpecError: it is missing or is not JSON.
    """
    if not path.is_file():
        raise no_catalog(path.parent, path.stem)
    with damage_in(f"the catalog file {path}", "restore it from the last commit"):
        listed = []
        for entry in read_parsed(path, json.loads)[key]:
            if wanted(entry):
                listed.append({k: v for k, v in entry.items() if k not in without})
        # Sorted, because a refresh may list the same files in another order.
        return sorted(listed, key=lambda entry: json.dumps(entry, sort_keys=True))
