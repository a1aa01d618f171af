"""Many files are hashed at once, by several processes where that pays."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from provision.core.tree_hashing import sha256_below


@pytest.mark.parametrize("size", [3, pytest.param(300_000, marks=pytest.mark.machine)])
def test_many_files_are_hashed(tmp_path: Path, size: int) -> None:
    contents = {f"{n % 7}/{n}": bytes([n]) * (size + n) for n in range(60)}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    sizes = {name: len(content) for name, content in contents.items()}
    expected = {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }
    assert sha256_below(tmp_path, sizes) == expected
