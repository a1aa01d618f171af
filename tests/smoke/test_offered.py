"""Lost is red: what torch offers on a kind of device, and the device refuses, fails the check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provision.core.process import clean_environment, run

SCRIPT = Path(__file__).with_name("lost.py")
# Each program needs them in each type: neither torch's table nor the list may excuse their loss.
BASIC = (
    "add mul div sub exp log sum mean softmax log_softmax layer_norm relu gelu embedding gather "
    "index_select cat sort topk cumsum where max_pool2d cross_entropy"
)


@pytest.mark.machine
def test_a_lost_operator_fails_its_check_on_each_kind_of_device(
    python: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lost.json"
    words = [python, "-I", SCRIPT, out]
    env = clean_environment(extra={"OMP_NUM_THREADS": "1"})
    done = run(words, env=env, timeout=400)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(out.read_text(encoding="utf-8"))
    tables = found.pop("tables")
    assert found.pop("sort in no list") == "unknown"
    assert len(found) == 15
    assert set(found.values()) <= {"operator-lost", "op-fails"}, found
    for kind, lacking in tables.items():
        assert len(lacking) > 50, kind
        excused = {name: lacking[name] for name in BASIC.split() if name in lacking}
        assert not excused, (kind, excused)
