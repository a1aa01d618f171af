"""Many files are hashed at once, by several processes where that pays."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from provision.core import tree_hashing
from provision.core.process import run
from provision.core.tree_hashing import sha256_below


@pytest.mark.machine
@pytest.mark.parametrize(("worth", "shares"), [(16_000_000, 0), (300, 4)])
def test_many_files_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int, shares: int
) -> None:
    started = []
    monkeypatch.setattr(tree_hashing, "_WORTH_A_PROCESS", worth)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(
        tree_hashing, "run", lambda *a, **k: started.append(a) or run(*a, **k)
    )
    contents = {f"{n % 7}/{n}": bytes([n]) * (3 + n) for n in range(60)}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    sizes = {name: len(content) for name, content in contents.items()}
    expected = {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }
    assert sha256_below(tmp_path, sizes) == expected
    assert len(started) == shares
