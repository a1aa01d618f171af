"""An image as a file: nothing but its content decides its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

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


# Two layers of the base image, one as its maker ordered it; two added ones, one of them equal.
BASE = [tar({"a": b"one"}), tar({"b": b"two", "a": b"one"})]
LAYERS = [*BASE, tar({"a": b"one"}), tar({"d": b"two", "c": b"one"})]
SORTED = [*LAYERS[:3], tar({"c": b"one", "d": b"two"})]


def saved(path: Path, *, created: str, pack: bool = False) -> Path:
    """Write what an engine saves: four layers, two of them equal."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {"User": "10001:10001"},
        "docker_version": "20.10",
        "history": [{"created": created, "created_by": "COPY"}],
        "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in LAYERS]},
    }
    names = [f"{number}/layer.tar" for number in range(len(LAYERS))]
    reported = [{"Config": "config.json", "RepoTags": ["x:1"], "Layers": names}]
    layers = {
        n: gzip.compress(d) if pack else d for n, d in zip(names, LAYERS, strict=True)
    }
    files = {
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(reported).encode(),
    }
    path.write_bytes(tar(files | layers))
    return path


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        entries = archive.getmembers()
        assert {entry.mtime for entry in entries} == {EPOCH}
        assert len({entry.name for entry in entries}) == len(entries)
        folders = [entry.name for entry in entries if entry.isdir()]
        # Some readers, apptainer and Syft among them, need the folders, and before their files.
        assert folders == ["blobs", "blobs/sha256"]
        assert [entry.name for entry in entries[:2]] == folders
        files = [entry for entry in entries if entry.isfile()]
        return {entry.name: archive.extractfile(entry).read() for entry in files}  # type: ignore[union-attr]


def parsed(files: dict[str, bytes], name: str) -> Any:  # noqa: ANN401
    return json.loads(files[name])


def test_builds_at_different_times_give_the_same_file(tmp_path: Path) -> None:
    made = []
    for number, created in enumerate(
        ["2026-11-20T01:02:03.4Z", "2027-01-01T00:00:00Z"]
    ):
        source = saved(tmp_path / f"{number}.tar", created=created, pack=number == 1)
        layout = tmp_path / f"{number}.oci.tar"
        made.append(
            (
                write_layout(source, layout, tag="x:1", epoch=EPOCH, added=2),
                layout.read_bytes(),
            )
        )
    assert made[0] == made[1]


def test_every_blob_is_named_by_its_hash_and_every_descriptor_is_true(
    tmp_path: Path,
) -> None:
    layout = tmp_path / "out.tar"
    reported = write_layout(
        saved(tmp_path / "in.tar", created="2026-11-20T00:00:00Z"),
        layout,
        tag="x:1",
        epoch=EPOCH,
        added=2,
    )
    files = members(layout)
    blobs = {name: data for name, data in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 5  # three layers, configuration, manifest
    assert all(
        name == f"blobs/sha256/{digest(data)[7:]}" for name, data in blobs.items()
    )
    (entry,) = parsed(files, "index.json")["manifests"]
    assert entry["digest"] == reported
    manifest = parsed(files, f"blobs/sha256/{reported[7:]}")
    digests = list(map(digest, SORTED))
    assert [layer["digest"] for layer in manifest["layers"]] == digests
    config = parsed(files, f"blobs/sha256/{manifest['config']['digest'][7:]}")
    assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
    for part in (entry, manifest["config"], *manifest["layers"]):
        assert len(blobs[f"blobs/sha256/{part['digest'][7:]}"]) == part["size"]
    assert parsed(files, "oci-layout") == {"imageLayoutVersion": "1.0.0"}
    (archive,) = parsed(files, "manifest.json")  # what engines before 25 read
    assert archive["RepoTags"] == ["x:1"]
    assert {archive["Config"], *archive["Layers"]} <= blobs.keys()
