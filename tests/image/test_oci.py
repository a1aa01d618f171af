"""An image as a file: nothing but its content decides its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from provision.core.errors import ToolError
from provision.image.oci import write_layout

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_793_491_200  # 2026-11-01


def tar(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


# Two layers of the base image, one as its maker ordered it; three added ones, two of them equal.
ONE = tar({"a": b"one"})
OF_ITS_MAKER = tar({"b": b"two", "a": b"one"})
ADDED = tar({"d": b"two", "c": b"one"})
ADDED_SORTED = tar({"c": b"one", "d": b"two"})
LAYERS = [ONE, OF_ITS_MAKER, ADDED, ONE, ONE]
SORTED = [ONE, OF_ITS_MAKER, ADDED_SORTED, ONE, ONE]


def saved(path: Path, *, created: str, pack: bool = False) -> Path:
    """Write what an engine saves: five layers, three of them equal."""
    digests = [digest(layer) for layer in LAYERS]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {"User": "10001:10001"},
        "docker_version": created,
        "history": [{"created": created, "created_by": "COPY"}],
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    if pack:
        config = dict(reversed(config.items()))
    names = [f"{number}/layer.tar" for number in range(len(LAYERS))]
    reported = [{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}]
    files = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(reported).encode(),
    }
    for name, layer in zip(names, LAYERS, strict=True):
        files[name] = gzip.compress(layer) if pack else layer
    path.write_bytes(tar(files))
    return path


def write(source: Path, layout: Path) -> str:
    return write_layout(source, layout, tag="x:1", epoch=EPOCH, added=3)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def blob(digest: str) -> str:
    return "blobs/sha256/" + digest.removeprefix("sha256:")


def members(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        blobs, sha256, *entries = archive.getmembers()
        for entry in entries:
            assert entry.isfile()
            assert entry.mtime == EPOCH
            assert entry.name not in files
            stream = archive.extractfile(entry)
            assert stream is not None
            files[entry.name] = stream.read()
    # Some readers, apptainer and Syft among them, need the folders, and before their files.
    assert blobs.name == "blobs"
    assert sha256.name == "blobs/sha256"
    for folder in (blobs, sha256):
        assert folder.isdir()
        assert (folder.mtime, folder.mode) == (EPOCH, 0o755)
    return files


def parsed(files: dict[str, bytes], name: str) -> Any:  # noqa: ANN401
    return json.loads(files[name])


def test_builds_at_different_times_give_the_same_file(tmp_path: Path) -> None:
    first = saved(tmp_path / "1.tar", created="2026-11-20T01:02:03.4Z")
    later = saved(tmp_path / "2.tar", created="2027-01-01T00:00:00Z", pack=True)
    layout = tmp_path / "1.oci.tar"
    again = tmp_path / "2.oci.tar"
    first_digest = write(first, layout)
    assert write(later, again) == first_digest
    assert layout.read_bytes() == again.read_bytes()


def test_every_blob_is_named_by_its_hash_and_every_descriptor_is_true(
    tmp_path: Path,
) -> None:
    layout = tmp_path / "out.tar"
    source = saved(tmp_path / "in.tar", created="2026-11-20T00:00:00Z")
    reported = write(source, layout)
    files = members(layout)
    blobs = {name: data for name, data in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 5  # three layers, configuration, manifest
    for name, data in blobs.items():
        assert name == blob(digest(data))
    index = parsed(files, "index.json")
    (entry,) = index["manifests"]
    assert entry["digest"] == reported
    names = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
    assert entry["annotations"] == dict.fromkeys(names, "x:1")
    manifest = parsed(files, blob(reported))
    kind = "application/vnd.oci.image"
    assert index["schemaVersion"] == manifest["schemaVersion"] == 2
    assert entry["mediaType"] == manifest["mediaType"] == f"{kind}.manifest.v1+json"
    assert manifest["config"]["mediaType"] == f"{kind}.config.v1+json"
    digests = [digest(layer) for layer in SORTED]
    layers = manifest["layers"]
    assert [layer["digest"] for layer in layers] == digests
    assert {layer["mediaType"] for layer in layers} == {f"{kind}.layer.v1.tar"}
    config = parsed(files, blob(manifest["config"]["digest"]))
    assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
    moment = "2026-11-01T00:00:00Z"
    assert config["created"] == moment
    assert config["history"] == [{"created": moment, "created_by": "COPY"}]
    for part in (entry, manifest["config"], *layers):
        content = blobs[blob(part["digest"])]
        assert len(content) == part["size"]
    assert parsed(files, "oci-layout") == {"imageLayoutVersion": "1.0.0"}
    (archive,) = parsed(files, "manifest.json")  # what engines before 25 read
    assert archive["RepoTags"] == ["x:1"]
    for name in (archive["Config"], *archive["Layers"]):
        assert name in blobs


@pytest.mark.parametrize(
    "files", [None, {}, {"manifest.json": b"[]"}, {"manifest.json": b"{"}]
)
def test_what_no_engine_saves_is_an_error_and_leaves_no_layout(
    tmp_path: Path, files: dict[str, bytes] | None
) -> None:
    source = tmp_path / "in.tar"
    source.write_bytes(b"" if files is None else tar(files))
    with pytest.raises(ToolError, match=r"cannot write .*out\.tar"):
        write(source, tmp_path / "out.tar")
    assert [*tmp_path.iterdir()] == [source]
    with pytest.raises(ToolError):
        write(tmp_path / "absent.tar", tmp_path / "out.tar")
