"""What a build vouches for is kept outside of it, and follows what Provision itself changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provision.core.errors import ToolError
from provision.core.filesystem import TAG, is_tagged, make_tagged
from provision.core.project import RECORD
from provision.environment.manifest import mark_proof, read_generation, write_record
from provision.environment.seal import (
    Seal,
    beside,
    drop_seals,
    generated_files,
    read_seal,
    refuse_overwritten,
    seal_findings,
)
from tests.environment.test_manifest import ENTRY

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "g"
    make_tagged(made)
    return made


def test_a_proof_is_sealed_and_an_edit_is_not(folder: Path) -> None:
    made = write_record(folder, ENTRY, Seal(generated_files(folder), {}))
    proven = mark_proof(made, "proven", "")
    assert read_generation(folder) == proven
    assert (made.record.proof, proven.record.proof) == ("skipped", "proven")
    assert list(seal_findings(folder, read_seal(folder))) == []
    path = folder / RECORD
    path.write_text(path.read_text().replace("2026", "2027"))
    mark_proof(read_generation(folder), "unproven", "")  # type: ignore[arg-type]
    (found,) = seal_findings(folder, read_seal(folder))
    assert found.evidence == (RECORD,)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": [], "records": {}, "manifests": []}']
)
def test_a_damaged_seal_seals_nothing(folder: Path, text: str) -> None:
    write_record(folder, ENTRY, Seal({}, {}))
    beside(folder).write_text(text)
    assert read_seal(folder) is None
    assert [found.code for found in seal_findings(folder, None)] == ["unsealed"]


def test_the_seal_of_what_is_gone_goes(folder: Path) -> None:
    write_record(folder, ENTRY, Seal({}, {}))
    folder.rename(folder.with_name("renamed"))
    drop_seals(folder.parent)
    assert not beside(folder).exists()


def test_attack_a_wheel_that_brings_a_record_or_a_tag(folder: Path) -> None:
    """A wheel's .data would make the build finished, or keep its folder from being removed."""
    before = generated_files(folder)
    (folder / TAG).write_text("evil")
    with pytest.raises(ToolError, match=TAG):
        refuse_overwritten(folder, before)
    assert is_tagged(folder)
    (folder / RECORD).symlink_to("nowhere")
    with pytest.raises(ToolError, match=RECORD):
        refuse_overwritten(folder, before)
