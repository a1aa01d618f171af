"""Write an image as an OCI layout whose digest depends on the content of the image only.

All times are set to one, and layers stored uncompressed and in one order: engines differ in each.
The layers of the base image keep their bytes, so that they are still known by their digests.
The format: https://specs.opencontainers.org/image-spec/image-layout/.
"""

import datetime as dt
import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, Any

from provision.core.errors import ToolError
from provision.core.limits import open_regular
from provision.image.layer import write_sorted

IMAGES = "provision/"  # where their names begin
_IMAGE = "application/vnd.oci.image"
_Stream = io.BufferedReader | io.BufferedRandom
# Keys that engines write about the build and not about the image.
_NOISE = (
    "container",
    "container_config",
    "docker_version",
    "moby.buildkit.cache.v0",
    "moby.buildkit.buildinfo.v1",
)


def is_layout(file: Path) -> bool:
    """Whether a file is the layout of an image of this toolkit; OSError if it cannot be read."""
    try:
        with (
            open_regular(file) as stream,
            tarfile.open(fileobj=stream, mode="r:") as tar,
        ):
            index = json.load(tar.extractfile("index.json") or stream)
        (entry,) = index["manifests"]
        name = entry["annotations"]["io.containerd.image.name"]
        return str(name).startswith(IMAGES)
    except (tarfile.TarError, KeyError, ValueError, TypeError, RecursionError):
        return False


def write_layout(saved: Path, layout: Path, *, tag: str, epoch: int, added: int) -> str:
    """Rewrite the output of ``docker save`` as an OCI layout in a tar file; return its digest.

    Args:
        saved: The output of ``docker save``.
        layout: The file to write.
        tag: Name and tag of the image.
        epoch: The time to set, in Unix seconds.
        added: The number of layers above those of the base image.

    Raises:
        ToolError: The layout cannot be written.
    """
    # ``manifest.json`` is for engines before 25.
    # Under another name until it is complete: a file cut short has no index, but looks like one.
    partial = layout.with_name(f".{layout.name}.partial")
    try:
        with tarfile.open(saved) as source, tarfile.open(partial, "w") as target:
            digest = _Layout(source, target, epoch, saved.parent).write(tag, added)
        partial.replace(layout)
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise ToolError(
            f"cannot write {layout}",
            evidence=repr(error),
            remedy="check its folder and the free space",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return digest


class _Layout:
    """One image while it is copied from an engine's archive to a layout."""

    def __init__(
        self,
        source: tarfile.TarFile,
        target: tarfile.TarFile,
        epoch: int,
        scratch: Path,
    ) -> None:
        self._source = source
        self._target = target
        self._epoch = epoch
        self._scratch = scratch  # as large as an image, which /tmp is often not
        self._written: set[str] = set()

    def write(self, tag: str, added: int) -> str:
        for folder in ("blobs", "blobs/sha256"):  # apptainer and Syft look for them
            self._folder(folder)
        (saved,) = json.load(self._open("manifest.json"))
        first_added = len(saved["Layers"]) - added
        layers = []
        for number, name in enumerate(saved["Layers"]):
            layers.append(self._layer(name, added=number >= first_added))
        digests = [layer["digest"] for layer in layers]
        config = normalized_config(json.load(self._open(saved["Config"])), self._epoch)
        config["rootfs"]["diff_ids"] = digests
        config_blob = self._blob(config, "config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_IMAGE}.manifest.v1+json",
            "config": config_blob,
            "layers": layers,
        }
        entry = self._blob(manifest, "manifest.v1+json")
        entry["annotations"] = {
            "io.containerd.image.name": tag,
            "org.opencontainers.image.ref.name": tag,
        }
        self._add("index.json", {"schemaVersion": 2, "manifests": [entry]})
        self._add("oci-layout", {"imageLayoutVersion": "1.0.0"})
        archive = {
            "Config": _path(config_blob["digest"]),
            "RepoTags": [tag],
            "Layers": [_path(digest) for digest in digests],
        }
        self._add("manifest.json", [archive])
        return str(entry["digest"])

    def _open(self, name: str) -> io.BufferedReader:
        member = self._source.extractfile(name)
        if not isinstance(member, io.BufferedReader):  # else None
            raise tarfile.ReadError(f"{name} is not a file")
        return member

    def _layer(self, name: str, *, added: bool) -> dict[str, Any]:
        with (
            self._open(name) as stored,
            (self._scratch / "unpacked").open("w+b") as unpacked,
            (self._scratch / "ordered").open("w+b") as ordered,
        ):
            plain = _plain(stored, unpacked)
            if added:
                write_sorted(plain, ordered)
                plain = ordered
            size = plain.seek(0, os.SEEK_END)
            plain.seek(0)
            digest = f"sha256:{hashlib.file_digest(plain, 'sha256').hexdigest()}"
            plain.seek(0)
            self._copy(_path(digest), plain, size)
        return {"mediaType": f"{_IMAGE}.layer.v1.tar", "digest": digest, "size": size}

    def _blob(self, document: object, kind: str) -> dict[str, Any]:
        data = _compact(document)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self._copy(_path(digest), io.BytesIO(data), len(data))
        return {"mediaType": f"{_IMAGE}.{kind}", "digest": digest, "size": len(data)}

    def _folder(self, name: str) -> None:
        entry = tarfile.TarInfo(name)
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o755
        entry.mtime = self._epoch
        self._target.addfile(entry)

    def _add(self, name: str, document: object) -> None:
        data = _compact(document)
        self._copy(name, io.BytesIO(data), len(data))

    def _copy(self, name: str, content: IO[bytes], size: int) -> None:
        if name in self._written:  # equal layers, such as two empty ones, are one blob
            return
        self._written.add(name)
        entry = tarfile.TarInfo(name)
        entry.mtime = self._epoch
        entry.size = size
        self._target.addfile(entry, content)


def normalized_config(config: dict[str, Any], epoch: int) -> dict[str, Any]:
    """Return an image's configuration with every time set, and without the keys of its engine."""
    moment = dt.datetime.fromtimestamp(epoch, dt.UTC)
    created = {"created": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
    normalized = config | created
    normalized["history"] = [entry | created for entry in config.get("history", ())]
    for key in _NOISE:
        normalized.pop(key, None)
    return normalized


def _plain(stored: io.BufferedReader, unpacked: io.BufferedRandom) -> _Stream:
    """Return a layer uncompressed: its digest in the configuration is that of the plain tar file."""
    compressed = stored.read(2) == b"\x1f\x8b"  # gzip
    stored.seek(0)
    if not compressed:
        return stored
    with gzip.open(stored) as content:
        shutil.copyfileobj(content, unpacked, 1 << 20)
    unpacked.seek(0)
    return unpacked


def _compact(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return text.encode()


def _path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")
