from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision import catalog
from provision.errors import SpecError

COMMITTED = Path(__file__).parents[1] / "envs" / "catalog"
TORCH = {
    "filename": "torch-2.13.0+cpu-cp311-cp311-win_amd64.whl",
    "url": "https://example.org/torch-2.13.0%2Bcpu-cp311-cp311-win_amd64.whl",
    "sha256": "a" * 64,
    "requires_dist": ["filelock"],
}


def write(folder: Path, *files: dict[str, Any], url: str = "https://example.org/") -> Path:
    folder.mkdir(exist_ok=True)
    text = json.dumps({"$schema": "index.schema.json", "url": url, "files": files})
    (folder / "vendor.json").write_text(text)
    return folder


def test_a_wheel_knows_its_name_and_version(tmp_path: Path) -> None:
    (wheel,) = catalog.load(write(tmp_path, TORCH), "vendor").of("torch")
    assert (wheel.name, wheel.version, wheel.lockable) == ("torch", "2.13.0+cpu", True)


def test_all_faults_are_told_at_once_with_their_place(tmp_path: Path) -> None:
    faulty = TORCH | {"sha256": "beef", "requires_dist": ["torch =="], "colour": 1}
    with pytest.raises(SpecError) as caught:
        catalog.load(write(tmp_path, faulty, url="https://me:secret@example.org/"), "vendor")
    for fault in ("url: holds a user name", "files[0].sha256", "files[0].requires_dist[0]",
                  "files[0].colour: unknown key"):  # fmt: skip
        assert fault in caught.value.evidence
    assert "secret" not in str(caught.value) + caught.value.evidence


def test_an_unknown_index_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        catalog.load(write(tmp_path), "vendro")
    assert "vendor" in caught.value.cause


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"sha256": "b" * 64}, True),
        ({"requires_dist": ["filelock>=4"]}, True),
        ({"requires_python": ">=3.10"}, True),
        ({"confirmed": True, "note": "seen again"}, False),
    ],
)
def test_only_what_decides_a_lock_counts_in_the_digest(
    tmp_path: Path, change: dict[str, Any], *, counts: bool
) -> None:
    assigned = {"vendor": ("torch",)}
    before = catalog.digest(write(tmp_path, TORCH), assigned)
    after = catalog.digest(write(tmp_path, TORCH | change), assigned)
    assert (before != after) is counts


def test_names_of_other_targets_do_not_count_in_the_digest(tmp_path: Path) -> None:
    other = TORCH | {"filename": "triton_xpu-3.7.1-cp311-cp311-win_amd64.whl"}
    before = catalog.digest(write(tmp_path, TORCH), {"vendor": ("torch",)})
    write(tmp_path, TORCH, other)
    assert catalog.digest(tmp_path, {"vendor": ("torch",)}) == before
    assert catalog.digest(tmp_path, {"vendor": ("torch", "triton-xpu")}) != before


def test_a_broken_snapshot_is_told_when_only_its_digest_is_wanted(tmp_path: Path) -> None:
    (write(tmp_path) / "vendor.json").write_text("{")
    with pytest.raises(SpecError, match=r"vendor\.json"):
        catalog.digest(tmp_path, {"vendor": ("torch",)})


@pytest.mark.parametrize("path", sorted(COMMITTED.glob("pytorch-*.json")), ids=lambda p: p.stem)
def test_committed_snapshots_are_sound(path: Path) -> None:
    index = catalog.load(COMMITTED, path.stem)
    names = [wheel.filename for wheel in index.files]
    assert len(names) == len(set(names))
    assert index.url.startswith("https://")


def test_the_committed_schema_is_that_of_the_model() -> None:
    assert json.loads((COMMITTED / "index.schema.json").read_text()) == catalog.schema()
