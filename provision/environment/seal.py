"""The seal of a generation: what its build made, and all that no RECORD says of its files.

No RECORD vouches for ``pyvenv.cfg``, ``bin/activate``, launchers, conda's records or the manifest.
Their digests are kept outside of it, in ``.seals``: nothing inside it vouches for itself.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from provision.core.errors import ToolError
from provision.core.filesystem import tag, write_atomic
from provision.core.findings import Finding
from provision.core.hashing import sha256_bytes, sha256_file
from provision.core.limits import read_if_any, read_parsed
from provision.core.locking import folder_lock
from provision.core.project import RECORD
from provision.core.text import plural
from provision.environment.findings import finding

_FOLDER = ".seals"
_LOCK = ".lock"
# Folders whose files a build makes; those of packages are in site-packages.
_PLACES = ("", "bin", "Scripts", "conda-meta")
# Files that Provision, uv and the image write later than the seal; the second of earlier versions.
LATER = {RECORD, "up-to-date", ".lock", "left-out.txt"}


@dataclass(frozen=True, slots=True)
class Seal:
    """What a build vouches for."""

    # SHA-256 of what it made, or where a link points, by path in the prefix.
    files: dict[str, str]
    # Digests that the lock does not have, by the SHA-256 of the wheel.
    records: dict[str, str]
    # SHA-256 of the manifest, and of the one before: two files cannot be replaced in one step.
    manifests: tuple[str, ...] = ()
    # Of its files when every one had been hashed, see provision.environment.stamp; "" of an earlier
    # version, and of a generation that is not trusted any more.
    stamp: str = ""

    def has_manifest(self, folder: Path) -> bool:
        """Whether the manifest of a generation is the one that was sealed."""
        return _manifest(folder) in self.manifests


def generated_files(prefix: Path) -> dict[str, str]:
    """Return the digests of the files in the folders that a build writes to itself."""
    digests = {}
    for folder in filter(Path.is_dir, map(prefix.joinpath, _PLACES)):
        for path in sorted(folder.iterdir()):
            name = path.relative_to(prefix).as_posix()
            if path.is_symlink():
                digests[name] = f"-> {path.readlink()}"
            elif path.is_file() and name not in LATER:
                digests[name] = sha256_file(path)
    return digests


def refuse_overwritten(prefix: Path, before: Mapping[str, str]) -> dict[str, str]:
    """Return the files that a build made; ToolError if a wheel replaced one of ``before``."""
    # Such a wheel could choose another interpreter or claim to be verified.
    now = generated_files(prefix)
    changed = [path for path, digest in before.items() if now.get(path) != digest]
    if os.path.lexists(prefix / RECORD):
        changed.append(RECORD)
    if changed:
        tag(prefix)  # it may be what was replaced, and the folder has to be removed
        files = ", ".join(sorted(changed))
        raise ToolError(
            f"a wheel replaced files of the environment itself: {files}",
            cause="its .data folder holds files of these names, which belong to no package",
            remedy="find the wheel with `unzip -l`, and forbid it in the spec",
        )
    return now


def read_seal(folder: Path) -> Seal | None:
    """Return the seal of a generation, or None where there is none that can be read."""
    try:
        data = read_parsed(beside(folder), json.loads)
        files = {path: str(digest) for path, digest in data["files"].items()}
        records = {wheel: str(digest) for wheel, digest in data["records"].items()}
        manifests = tuple(map(str, data["manifests"]))
        return Seal(files, records, manifests, str(data.get("stamp", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_seal(folder: Path, seal: Seal, manifest: str) -> None:
    """Write the seal of a generation whose manifest, of this text, is about to be written."""
    # A manifest that was edited since is not sealed again: the seal keeps telling.
    now = _manifest(folder)
    if not now or now in seal.manifests:
        manifests = filter(None, (now, sha256_bytes(manifest.encode())))
        _write(folder, replace(seal, manifests=tuple(manifests)))


def restamp(folder: Path, stamp: str) -> None:
    """Note the stamp of a generation whose every file was hashed; "" if it is not trusted."""
    if read_seal(folder) is None:
        return
    with changing_seal(folder):
        seal = read_seal(folder)
        if seal and seal.stamp != stamp:
            _write(folder, replace(seal, stamp=stamp))


@contextlib.contextmanager
def changing_seal(folder: Path) -> Iterator[None]:
    """Hold the lock of the seals; what a seal is made from is read inside.

    Not the lock of the target: a build holds that for minutes, and a smoke run changes a seal, too.
    """
    with folder_lock(beside(folder).parent, lambda: None, name=_LOCK):
        yield


def _write(folder: Path, seal: Seal) -> None:
    text = json.dumps(asdict(seal), indent=1)
    write_atomic(beside(folder), f"{text}\n")


def _manifest(folder: Path) -> str:
    content = read_if_any(folder / RECORD)
    return "" if content is None else sha256_bytes(content)


def drop_seals(home: Path) -> None:
    """Remove what was kept about generations that are gone."""
    for path in (home / _FOLDER).glob("*"):
        if path.name != _LOCK and not (home / path.stem).exists():
            path.unlink(missing_ok=True)


def seal_findings(prefix: Path, seal: Seal | None) -> Iterator[Finding]:
    """Yield what differs from the seal of a generation."""
    if seal is None:
        yield finding("unsealed", str(beside(prefix)))
        return
    now = generated_files(prefix)
    changed = {name for name, _ in now.items() ^ seal.files.items()}
    if not seal.has_manifest(prefix):
        changed.add(RECORD)
    if changed:
        shown = sorted(changed)[:5]
        yield finding("changed-prefix", *shown, files=plural(len(changed), "file"))


def beside(folder: Path, suffix: str = ".json") -> Path:
    """Return the file that is kept about a generation, outside of it."""
    folder = folder.resolve()  # the generation in use is also known as `current`
    return folder.parent / _FOLDER / f"{folder.name}{suffix}"
