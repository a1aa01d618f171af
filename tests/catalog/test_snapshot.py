from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from provision.catalog.digest import catalog_digest
from provision.catalog.snapshot import (
    Channel,
    DriverSet,
    Index,
    Interpreters,
    index_address,
    load_snapshot,
    render_snapshot,
)
from provision.core.errors import SpecError
from provision.spec.model import Conda, Target
from tests.small import target_of

COMMITTED = Path(__file__).parents[2] / "envs" / "catalog"
TORCH = {
    "filename": "torch-2.13.0+cpu-cp311-cp311-win_amd64.whl",
    "url": "https://example.org/torch-2.13.0%2Bcpu-cp311-cp311-win_amd64.whl",
    "sha256": "a" * 64,
    "requires_dist": ["filelock"],
}


CONDA = Conda(channels=("forge",), dependencies=("python",))


def target(*names: str) -> Target:
    return target_of("win-64", index={"vendor": names} if names else {})


def write(
    folder: Path, *files: dict[str, Any], url: str = "https://example.org/"
) -> Path:
    folder.mkdir(exist_ok=True)
    text = json.dumps({"$schema": "index.schema.json", "url": url, "files": files})
    (folder / "vendor.json").write_text(text)
    return folder


def test_all_faults_are_reported_at_once_with_their_place(tmp_path: Path) -> None:
    faulty = TORCH | {"sha256": "beef", "requires_dist": ["torch =="], "colour": 1}
    folder = write(tmp_path, faulty, url="https://me:secret@example.org/")
    with pytest.raises(SpecError) as caught:
        load_snapshot(folder, "vendor", Index)
    for fault in (
        "url: contains a user name",
        "files[0].sha256",
        "files[0].requires_dist[0]",
        "files[0].colour: unknown key",
    ):
        assert fault in caught.value.evidence
    assert "secret" not in str(caught.value) + caught.value.evidence


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/", "ftp is not a web address"),
        ("https:///simple", "https is not a web address"),
        ("https://me@example.org/", "contains a user name"),
        ("https://:secret@example.org/", "contains a user name"),
        ("https://example.org/?token=secret", "contains a user name"),
    ],
)
def test_an_address_that_must_not_be_committed_is_a_fault(
    tmp_path: Path, url: str, said: str
) -> None:
    with pytest.raises(SpecError) as caught:
        load_snapshot(write(tmp_path, url=url), "vendor", Index)
    assert f"url: {said}" in caught.value.evidence


@pytest.mark.parametrize(
    "name", ["a_1_amd64.deb -y", "../a_1_amd64.deb", "-o_1_all.deb"]
)
def test_attack_a_driver_set_names_more_than_a_file(tmp_path: Path, name: str) -> None:
    """A catalog adds words to a command of an image's build: it is not valid."""
    files = [{"filename": name}]
    document = {"version": "1", "note": "n", "source": "s", "files": files}
    (tmp_path / "set.json").write_text(json.dumps(document))
    with pytest.raises(SpecError) as caught:
        load_snapshot(tmp_path, "set", DriverSet)
    assert "is not the name of a Debian package" in caught.value.evidence


def test_a_wheel_is_locked_with_its_hash_and_its_requirements(tmp_path: Path) -> None:
    unhashed, unread = TORCH | {"sha256": None}, TORCH | {"requires_dist": None}
    index = load_snapshot(write(tmp_path, TORCH, unhashed, unread), "vendor", Index)
    lacks = [wheel.lacks for wheel in index.files]
    assert lacks == ["", "its SHA-256 is unknown", "its requirements are unknown"]


def test_an_unknown_index_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_snapshot(write(tmp_path), "vendro", Index)
    assert "vendor" in caught.value.cause
    assert "schema" not in caught.value.cause
    assert "did you mean `vendor`?" in caught.value.remedy
    with pytest.raises(SpecError, match="there is no catalog of 'vendor'"):
        catalog_digest(tmp_path / "empty", target("torch"))


@pytest.mark.parametrize("text", ["", "[]", "{}", None])
def test_without_its_address_an_index_is_an_error_that_names_it(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "vendor.json").write_text(text)
    with pytest.raises(SpecError, match="vendor"):
        index_address(tmp_path, "vendor")
    assert index_address(write(tmp_path), "vendor") == "https://example.org/"


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"sha256": "b" * 64}, True),
        ({"requires_dist": ["filelock>=4"]}, True),
        ({"requires_python": ">=3.10"}, True),
        ({"confirmed": True, "note": "seen again"}, False),
        ({"basis": "its file", "record": "b" * 64}, False),
        ({"sources": ["a page"], "replaced": ["b" * 64]}, False),
        ({"url": "https://mirror.example.org/torch.whl"}, False),
    ],
)
def test_only_what_decides_a_lock_counts_in_the_digest(
    tmp_path: Path, change: dict[str, Any], *, counts: bool
) -> None:
    before = catalog_digest(write(tmp_path, TORCH), target("torch"))
    after = catalog_digest(write(tmp_path, TORCH | change), target("torch"))
    assert (before != after) is counts


def test_records_of_another_platform_do_not_count_in_the_digest(tmp_path: Path) -> None:
    spec = target().model_copy(update={"conda": CONDA, "platform": "linux-64"})
    digests = set()
    for subdir in ("linux-64", "noarch", "win-64"):
        text = json.dumps({"packages": [{"name": "zlib", "subdir": subdir}]})
        (tmp_path / "forge.json").write_text(text)
        digests.add(catalog_digest(tmp_path, spec))
    (tmp_path / "forge.json").write_text('{"packages": []}')
    assert len(digests) == 3
    assert catalog_digest(tmp_path, spec) in digests


SNAPSHOTS = sorted(path for path in COMMITTED.glob("*.json") if "." not in path.stem)


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.stem)
def test_a_committed_snapshot_is_sound_and_written_as_update_writes_it(
    path: Path,
) -> None:
    text = path.read_text(encoding="utf-8")
    models = {
        "driverset": DriverSet,
        "index": Index,
        "channel": Channel,
        "interpreters": Interpreters,
    }
    model = models[json.loads(text)["$schema"].partition(".")[0]]
    snapshot = load_snapshot(COMMITTED, path.stem, model)
    names = re.findall(r'"filename": "(.+)"|"url": "(.+(?:bz2|conda))"', text)
    assert len(names) == len(set(names)) > 0
    assert render_snapshot(snapshot) == text
