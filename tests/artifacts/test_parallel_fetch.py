"""Files from wheelhouses, which may belong to anybody."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

from provision.artifacts.parallel_fetch import PARTIAL, WantedFile, fetch_all
from tests.lab import Silent

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GOOD, EVIL = b"what the lock names", b"what its owner put there later"


def test_attack_a_wheelhouse_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, folder = tmp_path / "house", tmp_path / "mine"
    house.mkdir()
    (house / "a.whl").write_bytes(GOOD)
    real = shutil.copyfile

    def late(source: Path, path: Path) -> None:
        """As if the owner had waited for the hash to be compared."""
        source.write_bytes(EVIL)
        real(source, path)

    monkeypatch.setattr(shutil, "copyfile", late)
    wanted = WantedFile("a.whl", hashlib.sha256(GOOD).hexdigest(), None, None, None)
    listener = Silent()
    (missing,) = fetch_all([wanted], folder, [house], listener, offline=True)
    assert missing.filename == "a.whl"
    assert not (folder / "a.whl").exists()
    assert [path.name for path in (folder / PARTIAL).iterdir()] == [".lock"]
    assert listener.notes == [
        f"ignored {house / 'a.whl'}: its sha256 is not the lock's"
    ]
