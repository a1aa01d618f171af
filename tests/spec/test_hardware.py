"""What detect reads of a spec: the same as a whole read gives, and as strict where it matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.core.errors import SpecError
from provision.spec.hardware import from_target, read_hardware
from provision.spec.reader import load_spec, target_names

SPECS = Path(__file__).parents[2] / "envs"


def test_own_specs_read_the_same_both_ways() -> None:
    whole = [from_target(load_spec(SPECS / f"{name}.toml")) for name in target_names(SPECS)]
    assert read_hardware(SPECS) == whole


FAULTS = {
    'accelerator = "cpu"': ('accelerator = "gpu"', "accelerator:"),
    'platform = "linux-64"': ('platform = "linux"', "platform:"),
    "[pip]": ('[hardware]\ndriver = "580 or newer"\n[pip]', "hardware.driver:"),
    'python = "3.11"\n': ('python = "3.11"\nhardware.families = "dg2"\n', "hardware.families:"),
    'python = "3.11"': ('python = "3.11"\nhardware = 5', "hardware:"),
}


@pytest.mark.parametrize("before", FAULTS)
def test_a_fault_of_the_hardware_is_told_in_full(before: str, tmp_path: Path) -> None:
    after, place = FAULTS[before]
    text = (SPECS / "cpu-linux.toml").read_text(encoding="utf-8")
    (tmp_path / "bad.toml").write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(SpecError, match="has 1 fault") as caught:
        read_hardware(tmp_path)
    assert place in caught.value.evidence


def test_no_toml_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("what is this")
    with pytest.raises(SpecError, match="cannot read"):
        read_hardware(tmp_path)


def test_a_fault_elsewhere_does_not_keep_a_machine_from_its_answer(tmp_path: Path) -> None:
    (tmp_path / "ours.toml").write_text('accelerator = "cpu"\nplatform = "linux-64"\nodd = 1\n')
    assert [found.name for found in read_hardware(tmp_path)] == ["ours"]
