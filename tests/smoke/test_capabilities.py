"""What a device or a machine may lack: absences that are documented, and none that is a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.core.process import clean_environment, run

SCRIPT = Path(__file__).with_name("stand_ins.py")


@pytest.mark.machine
def test_an_absence_has_a_reason_and_a_fault_excuses_nothing(
    python: Path, tmp_path: Path
) -> None:
    out = tmp_path / "wrong.json"
    done = run([python, "-I", SCRIPT, out], env=clean_environment(), timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(out.read_text(encoding="utf-8")) == {}
