"""The forbidden distributions of a spec, read without the rest of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from provision.core.errors import SpecError, UsageError
from provision.spec.forbidden import read_forbidden
from provision.spec.reader import load_target, target_names

SPECS = Path(__file__).parents[2] / "envs"


@pytest.mark.parametrize("target", target_names(SPECS))
def test_the_same_as_the_whole_spec_says(target: str) -> None:
    whole = load_target(SPECS, target).pip.forbid
    assert [(entry.name, entry.reason) for entry in whole] == [
        (entry.name, entry.reason) for entry in read_forbidden(SPECS, target)
    ]


@pytest.mark.parametrize("key", ['forbid = ["triton"]', 'forbid = [{ name = "triton" }]'])
def test_what_is_not_as_it_should_be_gets_the_words_of_the_spec(tmp_path: Path, key: str) -> None:
    text = (SPECS / "cuda-linux.toml").read_text(encoding="utf-8")
    start, _, rest = text.partition("[pip]\n")
    assert "forbid" not in start
    kept = rest.replace("forbid = [", "constraints = [", 1)
    (tmp_path / "mine.toml").write_text(f"{start}[pip]\n{key}\n{kept}", encoding="utf-8")
    with pytest.raises(SpecError, match="mine"):
        read_forbidden(tmp_path, "mine")


def test_no_such_target(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no target 'none'"):
        read_forbidden(tmp_path, "none")


@pytest.mark.machine
def test_it_does_not_wait_for_the_whole_spec() -> None:
    asks = "import sys, pathlib; from provision.spec.forbidden import read_forbidden; "
    asks += f"read_forbidden(pathlib.Path({str(SPECS)!r}), 'cpu-linux'); print(*sys.modules)"
    command = [sys.executable, "-I", "-c", asks]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "provision.spec.forbidden" in loaded
    assert "pydantic" not in loaded
