"""The long tables of operators: each row is computed, and none rests on what is not defined."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.core.process import clean_environment, run

SCRIPT = Path(__file__).with_name("rows.py")


@pytest.mark.machine
def test_every_row_is_computed_and_none_depends_on_the_order_of_equal_elements(
    python: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows.json"
    done = run([python, "-I", SCRIPT, out], env=clean_environment(), timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(out.read_text(encoding="utf-8")) == []
